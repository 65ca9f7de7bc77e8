#include <fmt/format.h>

#include <algorithm>
#include <list>

#include "redundancy/member_io.hpp"
#include "redundancy/new_member.hpp"
#include "redundancy/pass.hpp"
#include "redundancy/peers.hpp"
#include "redundancy/plan.hpp"
#include "redundancy/redundancy.hpp"
#include "redundancy/survey.hpp"

namespace scr::redundancy {
namespace {

constexpr std::string_view kDamaged = "DAMAGED";

struct Settings {
  bool verify_all = false;
  RegisterFiles register_files = nullptr;
  void* context = nullptr;
  EncodeOptions options = {};
};

// One process's part. An attempt takes the survivors at their word, and verifies them as it reads
// them; if one turns out to be damaged it is lost as well, and the next attempt does without it. So
// there are at most as many attempts as members, and one.
class Rebuilder {
 public:
  Rebuilder(Communicator& comm, FileSystem& fs, const RedundancySet& set,
            const std::vector<int>& hosts, std::vector<HostedMember>& mine,
            const Settings& settings)
      : comm_(comm),
        fs_(fs),
        set_(set),
        hosts_(hosts),
        mine_(mine),
        settings_(settings),
        peers_(comm, hosts) {}

  Result<RebuildResult> run() {
    for (const HostedMember& member : mine_) inspected_.push_back(inspect(fs_, set_, member));
    auto result = rebuild_until_whole();
    for (std::size_t i = 0; i < mine_.size(); ++i) mine_[i].lost_because = inspected_[i].damage;
    return result;
  }

 private:
  Result<RebuildResult> rebuild_until_whole() {
    while (true) {
      SCR_ASSIGN_OR_RETURN(const Survey found, survey(peers_, set_, inspected_));
      if (!found.any_lost() && !settings_.verify_all) return result_of(found);
      SCR_ASSIGN_OR_RETURN(const bool whole, attempt(found));
      if (whole) return result_of(found);
    }
  }
  // True: everything is whole. False: a survivor was found damaged.
  Result<bool> attempt(const Survey& found);
  std::vector<LocalMember> open_members(const Survey& found);
  Status open_survivor(const Survey& found, std::size_t hosted, LocalMember& local);
  Status verify_survivor(const Survey& found, std::size_t hosted, const LocalMember& local);
  // Tells the others of damages and of the first failure here; true if nobody has any damage.
  Result<bool> agree(bool damaged, const Status& failure);
  RebuildResult result_of(const Survey& found) const;
  bool is_lost(const Survey& found, std::size_t hosted) const {
    return found.lost[static_cast<std::size_t>(mine_[hosted].index)];
  }

  Communicator& comm_;
  FileSystem& fs_;
  const RedundancySet& set_;
  const std::vector<int>& hosts_;
  std::vector<HostedMember>& mine_;
  Settings settings_;
  Peers peers_;
  std::vector<Inspected> inspected_;  // as mine_
  std::list<NewMember> new_members_;  // of the attempt, in the order of mine_
};

Result<bool> Rebuilder::attempt(const Survey& found) {
  new_members_.clear();
  std::vector<LocalMember> locals = open_members(found);
  const Plan plan = plan_rebuild(set_, found.totals, found.lost, settings_.verify_all);
  std::uint64_t total = 0;
  for (const LocalMember& local : locals) total += local.files.size() + local.payload.size();
  const auto& progress = settings_.options.progress;
  run_pass(comm_, hosts_, plan, locals, settings_.options.piece_size,
           progress ? [&](std::uint64_t done) { progress(std::min(done, total), total); }
                    : std::function<void(std::uint64_t)>());

  bool damaged = false;
  Status failure;
  auto new_member = new_members_.begin();
  for (std::size_t i = 0; i < mine_.size(); ++i) {
    if (is_lost(found, i)) {
      Status finished = (new_member++)->finish(locals[i]);
      if (failure.ok()) failure = std::move(finished);
    } else if (Status status = verify_survivor(found, i, locals[i]); !status.ok()) {
      inspected_[i] = lost_member(mine_[i].index, status);
      damaged = true;
    }
  }
  auto sound = agree(damaged, failure);
  if (!sound.ok() || !*sound) {
    new_members_.clear();
    return sound;
  }
  Status published;
  for (NewMember& member : new_members_) {
    if (published.ok()) published = member.publish();
  }
  published = peers_.exchange_status(published);
  new_members_.clear();
  SCR_RETURN_IF_ERROR(published);
  for (std::size_t i = 0; i < mine_.size(); ++i) {
    mine_[i].rebuilt = is_lost(found, i);
    mine_[i].present = true;
  }
  return true;
}

std::vector<LocalMember> Rebuilder::open_members(const Survey& found) {
  std::vector<LocalMember> locals;
  for (std::size_t i = 0; i < mine_.size(); ++i) {
    HostedMember& member = mine_[i];
    LocalMember& local = locals.emplace_back(member.index, fs_, *member.directory);
    if (is_lost(found, i)) {
      NewMember& fresh =
          new_members_.emplace_back(fs_, member, found.header_for(set_, member.index));
      local.status = fresh.create(local, settings_.register_files, settings_.context);
    } else {
      local.status = open_survivor(found, i, local);
    }
  }
  return locals;
}

Status Rebuilder::open_survivor(const Survey& found, std::size_t hosted, LocalMember& local) {
  const auto index = static_cast<std::size_t>(local.index);
  SCR_RETURN_IF_ERROR(open_member_files(*found.metadata[index], local.files));
  if (set_.scheme == Scheme::kSingle) return {};
  const RedundancyHeader& header = *inspected_[hosted].header;
  return local.payload.append(set_.file_name(local.index), header.payload_offset,
                              header.payload_size());
}

Status Rebuilder::verify_survivor(const Survey& found, std::size_t hosted,
                                  const LocalMember& local) {
  SCR_RETURN_IF_ERROR(local.status);
  SCR_RETURN_IF_ERROR(
      compare_checksums(*found.metadata[static_cast<std::size_t>(local.index)], local.files));
  if (set_.scheme == Scheme::kSingle) return {};
  return compare_checksum(set_.file_name(local.index), local.payload.checksum(0),
                          inspected_[hosted].header->payload_crc);
}

Result<bool> Rebuilder::agree(bool damaged, const Status& failure) {
  Hash message;
  if (damaged) message.at(kDamaged);
  if (!failure.ok()) message.set(kFailureKey, status_to_hash(failure));
  const auto messages = peers_.exchange([&](std::size_t /*process*/) { return message; });
  for (const Hash& other : messages) {
    // What was made of damaged data may have failed for that reason alone.
    if (other.contains(kDamaged)) return false;
  }
  SCR_RETURN_IF_ERROR(failure);
  SCR_RETURN_IF_ERROR(peers_.first_failure(messages));
  return true;
}

RebuildResult Rebuilder::result_of(const Survey& found) const {
  RebuildResult result;
  result.dataset = found.dataset;
  for (int i = 0; i < set_.size(); ++i) {
    if (found.lost[static_cast<std::size_t>(i)]) result.rebuilt.push_back(i);
  }
  return result;
}

}  // namespace

Result<RebuildResult> rebuild(Communicator& comm, FileSystem& fs, const RedundancySet& set,
                              const std::vector<int>& hosts, std::vector<HostedMember>& mine,
                              bool verify_all, RegisterFiles register_files, void* context,
                              const EncodeOptions& options) {
  Settings settings{verify_all, register_files, context, options};
  if (options.piece_size == 0) settings.options.piece_size = default_piece_size(set.size());
  return Rebuilder(comm, fs, set, hosts, mine, settings).run();
}

}  // namespace scr::redundancy
