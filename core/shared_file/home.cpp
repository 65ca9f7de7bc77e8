#include "core/shared_file/home.hpp"

#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>

#include "core/base/checksum.hpp"

namespace scr::shared_file {

namespace {

enum class Op : std::uint8_t {
  kEnter = 1,
  kRestore = 2,
  kLookUp = 3,
  kList = 4,
  kSize = 5,
  kTruncate = 6,
  kDrop = 7,
  kAddToPointer = 8,
  kSetPointer = 9,
  kLock = 10,
  kUnlock = 11,
  kCreate = 12,
  kCost = 13,
  kClaim = 14,  // of a name; the owner is in the place of the file's id
  kRelease = 15,
};

// Requests and answers stay below the 1 MiB of the service.
constexpr std::size_t kMostExtents = 20'000;
constexpr std::size_t kMostRanges = 50'000;
constexpr std::size_t kMostLocations = 20'000;
constexpr std::uint64_t kFarthest = std::uint64_t{1} << 63U;
constexpr std::uint32_t kHole = 0xffffffff;
constexpr std::size_t kLongestName = 65536;
// Requests of a client whose answers are kept: more than its threads can have on their way at once,
// but each costs memory for every process of the run.
constexpr std::size_t kMostRemembered = 32;
// Of an extent in the map, with what the map itself and the allocator add.
constexpr std::uint64_t kExtentMemory = sizeof(Extent) + 64;

WireWriter begin(Op op, std::uint64_t file, const RequestIdentity& identity = {}) {
  WireWriter out;
  out.u8(static_cast<std::uint8_t>(op)).u64(file);
  out.u64(identity.client).u64(identity.sequence);
  return out;
}

Status bad_request() { return corrupt("a message about a shared file is not in order"); }
Status bad_answer() { return corrupt("an answer about a shared file is not in order"); }

bool is_range(std::uint64_t offset, std::uint64_t length) {
  return offset < kFarthest && length <= kFarthest - offset;
}

Bytes number(std::uint64_t value) { return WireWriter().u64(value).take(); }

Result<std::uint64_t> one_number(ByteView answer) {
  WireReader in(answer);
  const std::uint64_t value = in.u64();
  if (!in.ok()) return bad_answer();
  return value;
}

std::uint64_t random_number() {
  std::uint64_t random = 0;
  const bool got = ::getrandom(&random, sizeof random, 0) == sizeof random;
  return got ? random : static_cast<std::uint64_t>(::getpid()) << 32U;
}

std::string text_of(ByteView bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

// --- the home ------------------------------------------------------------------------------------

std::size_t Home::files() const {
  const std::lock_guard lock(mutex_);
  return files_.size();
}

Result<Bytes> Home::handle(ByteView request) {
  WireReader in(request);
  const std::uint8_t op = in.u8();
  const std::uint64_t id = in.u64();
  RequestIdentity identity;
  identity.client = in.u64();
  identity.sequence = in.u64();
  if (!in.ok()) return bad_request();
  const std::lock_guard lock(mutex_);
  if (identity.sequence == 0) return perform(op, id, in);
  if (const Bytes* given = answer_given(identity)) return *given;
  auto answer = perform(op, id, in);
  if (answer.ok()) remember(identity, *answer);
  return answer;
}

const Bytes* Home::answer_given(const RequestIdentity& identity) const {
  const auto client = done_.find(identity.client);
  if (client == done_.end()) return nullptr;
  const auto found = std::ranges::find(client->second, identity.sequence, &Done::sequence);
  return found == client->second.end() ? nullptr : &found->answer;
}

void Home::remember(const RequestIdentity& identity, const Bytes& answer) {
  std::vector<Done>& done = done_[identity.client];
  if (done.size() == kMostRemembered) done.erase(done.begin());
  done.push_back({identity.sequence, answer});
}

Result<Bytes> Home::perform(std::uint8_t op, std::uint64_t id, WireReader& in) {
  switch (static_cast<Op>(op)) {
    case Op::kDrop:
      files_.erase(id);
      return Bytes();
    case Op::kCreate:
      return create(id, in);
    case Op::kClaim:
      return claim(id, in.rest());
    case Op::kRelease:
      return release(id, in.rest());
    case Op::kRestore:
      files_.try_emplace(id);
      break;
    default:
      break;
  }
  const auto known = files_.find(id);
  // Not a file without bytes: who reads would get zeros for what was dropped.
  if (known == files_.end()) {
    return not_found(fmt::format("a shared file ({:#x}) is not known any more on its node", id));
  }
  return perform(op, known->second, in);
}

Result<Bytes> Home::perform(std::uint8_t op, FileState& file, WireReader& in) {
  switch (static_cast<Op>(op)) {
    case Op::kEnter:
    case Op::kRestore:
      return enter(file, in, static_cast<Op>(op) == Op::kRestore);
    case Op::kLookUp:
      return look_up(file, in);
    case Op::kList:
      return list(file, in);
    case Op::kSize:
      return number(file.size);
    case Op::kCost:
      return WireWriter()
          .u64(file.extents.count())
          .u64(file.extents.count() * kExtentMemory)
          .take();
    case Op::kTruncate: {
      file.size = in.u64();
      if (!in.ok()) return bad_request();
      file.extents.truncate(file.size, {++file.epoch, 0xffffffff, ~std::uint64_t{0}});
      return Bytes();
    }
    case Op::kAddToPointer: {
      const std::uint64_t before = file.pointer;
      file.pointer += in.u64();
      return number(before);
    }
    case Op::kSetPointer:
      file.pointer = in.u64();
      return Bytes();
    case Op::kLock: {
      const std::uint64_t owner = in.u64();
      if (file.lock_owner == 0) file.lock_owner = owner;
      return number(file.lock_owner == owner ? 1 : 0);
    }
    case Op::kUnlock:
      if (file.lock_owner == in.u64()) file.lock_owner = 0;
      return Bytes();
    default:
      return bad_request();
  }
}

Result<Bytes> Home::create(std::uint64_t id, WireReader& in) {
  const std::uint64_t size = in.u64();
  if (!in.ok() || size > kFarthest) return bad_request();
  FileState& file = files_[id];
  file.size = std::max(file.size, size);
  return Bytes();
}

Result<Bytes> Home::claim(std::uint64_t owner, ByteView name) {
  if (owner == 0 || name.empty() || name.size() > kLongestName) return bad_request();
  Claim& known = claims_[text_of(name)];
  if (known.times == 0) known.owner = owner;
  if (known.owner != owner) return number(0);
  ++known.times;
  return number(1);
}

Result<Bytes> Home::release(std::uint64_t owner, ByteView name) {
  const auto known = claims_.find(text_of(name));
  if (known == claims_.end() || known->second.owner != owner) return Bytes();
  if (--known->second.times == 0) claims_.erase(known);
  return Bytes();
}

Result<Bytes> Home::enter(FileState& file, WireReader& in, bool with_stamps) {
  LogPlace log;
  log.rank = in.u32();
  log.node = in.u32();
  log.id = in.u64();
  const std::uint64_t size = in.u64();
  const std::uint32_t count = in.u32();
  const std::size_t each = with_stamps ? 40 : 24;
  if (!in.ok() || in.left() != count * each || size > kFarthest) return bad_request();
  if (!with_stamps) ++file.epoch;
  file.logs[log.rank] = log;
  for (std::uint32_t i = 0; i < count; ++i) {
    Extent extent;
    extent.offset = in.u64();
    extent.length = in.u64();
    extent.log_offset = in.u64();
    extent.stamp = {file.epoch, log.rank, i};
    if (with_stamps) {
      extent.stamp.epoch = in.u64();
      extent.stamp.sequence = in.u64();
      file.epoch = std::max(file.epoch, extent.stamp.epoch);
    }
    if (!is_range(extent.offset, extent.length) || !is_range(extent.log_offset, extent.length)) {
      return bad_request();
    }
    if (extent.length > 0) file.extents.insert(extent);
  }
  file.size = std::max(file.size, size);
  return Bytes();
}

// How many bytes of the ranges the answer covers, and the pieces; the logs are numbered in a table
// that follows.
Result<Bytes> Home::look_up(FileState& file, WireReader& in) {
  const std::uint32_t count = in.u32();
  if (!in.ok() || in.left() != std::size_t{count} * 16) return bad_request();
  WireWriter pieces;
  std::map<std::uint32_t, std::uint32_t> numbers;  // rank -> place in the table
  std::uint32_t found = 0;
  std::uint64_t covered = 0;
  for (std::uint32_t i = 0; i < count && found < kMostLocations; ++i) {
    const std::uint64_t offset = in.u64();
    const std::uint64_t length = in.u64();
    if (!is_range(offset, length)) return bad_request();
    for (const Piece& piece : file.extents.find(offset, length, kMostLocations - found)) {
      ++found;
      std::uint32_t log = kHole;
      if (piece.source) {
        const auto next = static_cast<std::uint32_t>(numbers.size());
        log = numbers.try_emplace(piece.source->stamp.rank, next).first->second;
      }
      pieces.u64(piece.offset).u64(piece.length);
      pieces.u64(piece.source ? piece.source->log_offset : 0).u32(log);
      covered += piece.length;
    }
  }
  WireWriter out;
  out.u64(covered).u32(found).u32(static_cast<std::uint32_t>(numbers.size()));
  Bytes answer = out.take();
  answer.insert(answer.end(), pieces.view().begin(), pieces.view().end());
  std::vector<std::uint32_t> ranks(numbers.size());
  for (const auto& [rank, place] : numbers) ranks[place] = rank;
  WireWriter table;
  for (const std::uint32_t rank : ranks) {
    const LogPlace& log = file.logs.at(rank);
    table.u32(log.rank).u32(log.node).u64(log.id);
  }
  answer.insert(answer.end(), table.view().begin(), table.view().end());
  return answer;
}

// The extents of a rank from an offset on, and where to go on (0: these are all).
Result<Bytes> Home::list(FileState& file, WireReader& in) {
  const std::uint32_t rank = in.u32();
  const std::uint64_t from = in.u64();
  if (!in.ok()) return bad_request();
  WireWriter out;
  std::uint64_t next = 0;
  std::size_t count = 0;
  file.extents.visit_from(from, [&](const Extent& extent) {
    if (extent.stamp.rank != rank) return true;
    if (count++ == kMostLocations) {
      next = extent.offset;
      return false;
    }
    out.u64(extent.offset).u64(extent.length).u64(extent.log_offset);
    out.u64(extent.stamp.epoch).u64(extent.stamp.sequence);
    return true;
  });
  out.u64(next);
  return out.take();
}

// --- a process -----------------------------------------------------------------------------------

Homes::Homes(int nodes, Transport transport)
    : nodes_(nodes), transport_(std::move(transport)), client_(random_number()) {}

Result<Bytes> Homes::ask(int node, Bytes request) const {
  std::vector<Message> messages;
  messages.push_back({node, std::move(request)});
  return std::move(transport_(std::move(messages)).front());
}

// To every node; the first error, if there is one.
Result<std::vector<Bytes>> Homes::ask_all(const Bytes& request) const {
  std::vector<Message> messages;
  for (int node = 0; node < nodes_; ++node) messages.push_back({node, request});
  std::vector<Bytes> answers;
  Status first;
  for (auto& answer : transport_(std::move(messages))) {
    if (first.ok()) first = answer.status();
    if (answer.ok()) answers.push_back(*std::move(answer));
  }
  SCR_RETURN_IF_ERROR(first);
  return answers;
}

int Homes::home_of_name(const std::string& name) const {
  return static_cast<int>(crc32(std::as_bytes(std::span(name))) %
                          static_cast<std::uint32_t>(nodes_));
}

Status Homes::create(std::uint64_t file, std::uint64_t size) const {
  return ask_all(begin(Op::kCreate, file).u64(size).take()).status();
}

Status Homes::enter(std::uint64_t file, const LogPlace& log, std::span<const Extent> extents,
                    std::uint64_t size) const {
  return enter(file, log, extents, size, /*with_stamps=*/false);
}

Status Homes::restore(std::uint64_t file, const LogPlace& log, std::span<const Extent> extents,
                      std::uint64_t size) const {
  return enter(file, log, extents, size, /*with_stamps=*/true);
}

Status Homes::enter(std::uint64_t file, const LogPlace& log, std::span<const Extent> extents,
                    std::uint64_t size, bool with_stamps) const {
  std::map<int, std::vector<Extent>> by_home;
  by_home[home_of(file, 0)];  // it knows the size
  for (const Extent& extent : extents) {
    for (std::uint64_t begin = extent.offset; begin < extent.end();) {
      const std::uint64_t end = std::min(extent.end(), (begin / kStripeSize + 1) * kStripeSize);
      Extent part = extent;
      part.offset = begin;
      part.length = end - begin;
      part.log_offset += begin - extent.offset;
      by_home[home_of(file, begin)].push_back(part);
      begin = end;
    }
  }
  // Parts of one home's share must arrive in their order: a round for each.
  for (std::size_t from = 0;; from += kMostExtents) {
    std::vector<Message> messages;
    for (const auto& [node, all] : by_home) {
      if (from > 0 && from >= all.size()) continue;
      const auto part = std::span(all).subspan(from, std::min(kMostExtents, all.size() - from));
      WireWriter out =
          with_stamps ? begin(Op::kRestore, file) : begin(Op::kEnter, file, next_identity());
      out.u32(log.rank).u32(log.node).u64(log.id).u64(size);
      out.u32(static_cast<std::uint32_t>(part.size()));
      for (const Extent& extent : part) {
        out.u64(extent.offset).u64(extent.length).u64(extent.log_offset);
        if (with_stamps) out.u64(extent.stamp.epoch).u64(extent.stamp.sequence);
      }
      messages.push_back({node, out.take()});
    }
    if (messages.empty()) return {};
    for (const auto& answer : transport_(std::move(messages))) SCR_RETURN_IF_ERROR(answer.status());
  }
}

// What is asked of one home: its ranges, none of them empty, and the locations found so far.
struct Homes::Share {
  std::vector<Range> ranges;
  std::size_t next = 0;  // the first range that is not done
  std::vector<Location> found;

  bool is_done() const { return next == ranges.size(); }
  Bytes request(std::uint64_t file) const {
    const std::size_t count = std::min(kMostRanges, ranges.size() - next);
    WireWriter out = begin(Op::kLookUp, file);
    out.u32(static_cast<std::uint32_t>(count));
    for (std::size_t i = next; i < next + count; ++i)
      out.u64(ranges[i].offset).u64(ranges[i].length);
    return out.take();
  }
  Status take(ByteView answer);
};

Status Homes::Share::take(ByteView answer) {
  WireReader in(answer);
  std::uint64_t covered = in.u64();
  const std::uint32_t pieces = in.u32();
  const std::uint32_t logs = in.u32();
  if (!in.ok() || in.left() != std::size_t{pieces} * 28 + std::size_t{logs} * 16) {
    return bad_answer();
  }
  const std::size_t first = found.size();
  found.reserve(first + pieces);
  std::vector<std::uint32_t> sources;
  sources.reserve(pieces);
  for (std::uint32_t i = 0; i < pieces; ++i) {
    Location location;
    location.range.offset = in.u64();
    location.range.length = in.u64();
    location.log_offset = in.u64();
    sources.push_back(in.u32());
    found.push_back(location);
  }
  std::vector<LogPlace> table(logs);
  for (LogPlace& log : table) log = {in.u32(), in.u32(), in.u64()};
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (sources[i] == kHole) continue;
    if (sources[i] >= table.size()) return bad_answer();
    found[first + i].log = table[sources[i]];
  }
  if (covered == 0) return bad_answer();
  // On from where the answer ends.
  for (; next < ranges.size() && covered >= ranges[next].length; ++next) {
    covered -= ranges[next].length;
  }
  if (next < ranges.size()) {
    ranges[next].offset += covered;
    ranges[next].length -= covered;
  }
  return {};
}

// All homes at once, until each has told of all its ranges; in the first round also for the size,
// if that is wanted.
Status Homes::ask_shares(std::uint64_t file, std::map<int, Share>& shares,
                         std::uint64_t* size) const {
  for (;;) {
    std::vector<Message> messages;
    std::vector<Share*> asked;
    for (auto& [node, share] : shares) {
      if (share.is_done()) continue;
      messages.push_back({node, share.request(file)});
      asked.push_back(&share);
    }
    if (size != nullptr) messages.push_back({home_of(file, 0), begin(Op::kSize, file).take()});
    if (messages.empty()) return {};
    const auto answers = transport_(std::move(messages));
    for (std::size_t i = 0; i < asked.size(); ++i) {
      SCR_RETURN_IF_ERROR(answers[i].status());
      SCR_RETURN_IF_ERROR(asked[i]->take(*answers[i]));
    }
    if (size == nullptr) continue;
    SCR_RETURN_IF_ERROR(answers.back().status());
    SCR_ASSIGN_OR_RETURN(*size, one_number(*answers.back()));
    size = nullptr;
  }
}

Result<std::vector<Location>> Homes::look_up(std::uint64_t file,
                                             std::span<const Range> ranges) const {
  return look_up(file, ranges, nullptr);
}

Result<Homes::Found> Homes::look_up_with_size(std::uint64_t file,
                                              std::span<const Range> ranges) const {
  Found found;
  SCR_ASSIGN_OR_RETURN(found.locations, look_up(file, ranges, &found.size));
  return found;
}

Result<std::vector<Location>> Homes::look_up(std::uint64_t file, std::span<const Range> ranges,
                                             std::uint64_t* size) const {
  struct Part {
    Range range;
    int node;
  };
  std::vector<Part> parts;
  std::map<int, Share> shares;
  for (const Range& range : ranges) {
    for (std::uint64_t begin = range.offset; begin < range.end();) {
      const std::uint64_t end = std::min(range.end(), (begin / kStripeSize + 1) * kStripeSize);
      const int node = home_of(file, begin);
      parts.push_back({{begin, end - begin}, node});
      shares[node].ranges.push_back({begin, end - begin});
      begin = end;
    }
  }
  SCR_RETURN_IF_ERROR(ask_shares(file, shares, size));
  if (shares.size() == 1) return std::move(shares.begin()->second.found);
  // Back in the order of the ranges.
  std::vector<Location> all;
  std::map<int, std::size_t> next;
  for (const Part& part : parts) {
    const std::vector<Location>& there = shares[part.node].found;
    std::size_t& at = next[part.node];
    for (std::uint64_t length = 0; length < part.range.length; ++at) {
      if (at >= there.size()) return bad_answer();
      all.push_back(there[at]);
      length += there[at].range.length;
    }
  }
  return all;
}

Result<std::vector<Extent>> Homes::list(std::uint64_t file, std::uint32_t rank,
                                        std::span<const int> nodes) const {
  std::vector<Extent> all;
  for (const int node : nodes) {
    for (std::uint64_t from = 0;;) {
      WireWriter out = begin(Op::kList, file);
      out.u32(rank).u64(from);
      SCR_ASSIGN_OR_RETURN(const Bytes answer, ask(node, out.take()));
      WireReader in(answer);
      if (answer.size() % 40 != 8) return bad_answer();
      while (in.left() > 8) {
        Extent extent;
        extent.offset = in.u64();
        extent.length = in.u64();
        extent.log_offset = in.u64();
        extent.stamp.rank = rank;
        extent.stamp.epoch = in.u64();
        extent.stamp.sequence = in.u64();
        all.push_back(extent);
      }
      const std::uint64_t next = in.u64();
      if (next == 0) break;
      if (next <= from) return bad_answer();
      from = next;
    }
  }
  std::ranges::sort(all, {}, &Extent::offset);
  return all;
}

Result<std::uint64_t> Homes::size(std::uint64_t file) const {
  SCR_ASSIGN_OR_RETURN(const Bytes answer, ask(home_of(file, 0), begin(Op::kSize, file).take()));
  return one_number(answer);
}

Status Homes::truncate(std::uint64_t file, std::uint64_t size) const {
  return ask_all(begin(Op::kTruncate, file, next_identity()).u64(size).take()).status();
}

Status Homes::drop(std::uint64_t file) const {
  return ask_all(begin(Op::kDrop, file).take()).status();
}

Result<IndexCost> Homes::cost(std::uint64_t file) const {
  SCR_ASSIGN_OR_RETURN(const auto answers, ask_all(begin(Op::kCost, file).take()));
  IndexCost cost;
  for (const Bytes& answer : answers) {
    WireReader in(answer);
    cost.extents += in.u64();
    cost.bytes += in.u64();
    if (!in.ok()) return bad_answer();
  }
  return cost;
}

Result<std::uint64_t> Homes::add_to_pointer(std::uint64_t file, std::uint64_t by) const {
  WireWriter out = begin(Op::kAddToPointer, file, next_identity());
  SCR_ASSIGN_OR_RETURN(const Bytes answer, ask(home_of(file, 0), out.u64(by).take()));
  return one_number(answer);
}

Status Homes::set_pointer(std::uint64_t file, std::uint64_t to) const {
  WireWriter out = begin(Op::kSetPointer, file, next_identity());
  return ask(home_of(file, 0), out.u64(to).take()).status();
}

Result<bool> Homes::try_lock(std::uint64_t file, std::uint64_t owner) const {
  WireWriter out = begin(Op::kLock, file, next_identity());
  SCR_ASSIGN_OR_RETURN(const Bytes answer, ask(home_of(file, 0), out.u64(owner).take()));
  WireReader in(answer);
  const bool got = in.u64() == 1;
  if (!in.ok()) return bad_answer();
  return got;
}

Status Homes::unlock(std::uint64_t file, std::uint64_t owner) const {
  WireWriter out = begin(Op::kUnlock, file, next_identity());
  return ask(home_of(file, 0), out.u64(owner).take()).status();
}

Result<bool> Homes::claim(const std::string& name, std::uint64_t owner) const {
  WireWriter out = begin(Op::kClaim, owner, next_identity());
  SCR_ASSIGN_OR_RETURN(const Bytes answer, ask(home_of_name(name), out.text(name).take()));
  WireReader in(answer);
  const bool got = in.u64() == 1;
  if (!in.ok()) return bad_answer();
  return got;
}

Status Homes::release(const std::string& name, std::uint64_t owner) const {
  WireWriter out = begin(Op::kRelease, owner, next_identity());
  return ask(home_of_name(name), out.text(name).take()).status();
}

}  // namespace scr::shared_file
