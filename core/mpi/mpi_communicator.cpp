#include "core/mpi/mpi_communicator.hpp"
#include "core/mpi/attendance_list.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <limits>

namespace scr {
namespace {

// Tags above those of callers and of communicator.cpp.
constexpr int kExchangeTag = Communicator::kMaxTag + 10;  // and the next one
constexpr int kRemainderTag = Communicator::kMaxTag + 12;

// Counts of MPI are int; 1 GiB leaves room for implementations that add to them.
std::size_t piece_limit = std::size_t{1} << 30U;
std::atomic<std::uint64_t> message_count{0};

// Our communicators have MPI_ERRORS_ARE_FATAL, so this matters for calls on the application's only.
void require(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char reason[MPI_MAX_ERROR_STRING] = "unknown error";
  int length = 0;
  PMPI_Error_string(code, reason, &length);
  std::fprintf(stderr, "h5scr: %s failed: %s\n", call, reason);
  PMPI_Abort(MPI_COMM_WORLD, 1);
}

void require_length(MPI_Status& status, std::size_t expected) {
  int length = 0;
  PMPI_Get_count(&status, MPI_BYTE, &length);
  if (static_cast<std::size_t>(length) == expected) return;
  std::fprintf(stderr, "h5scr: message from rank %d with tag %d has %d bytes, expected %zu\n",
               status.MPI_SOURCE, status.MPI_TAG, length, expected);
  PMPI_Abort(MPI_COMM_WORLD, 1);
}

int to_count(std::size_t bytes) { return static_cast<int>(bytes); }

// Calls `move` for each piece of at most the limit, at least once. Both ends know the length, so
// they agree on the pieces; MPI keeps the order of messages with equal source and tag.
template <typename Byte, typename Move>
void for_each_piece(std::span<Byte> data, Move move) {
  do {
    const std::size_t length = std::min(data.size(), piece_limit);
    move(data.first(length));
    data = data.subspan(length);
  } while (!data.empty());
}

MPI_Op native_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::kMin:
      return MPI_MIN;
    case ReduceOp::kMax:
      return MPI_MAX;
    case ReduceOp::kSum:
      break;
  }
  return MPI_SUM;
}

class PendingPieces final : public Request::State {
 public:
  void add(MPI_Request request, std::size_t length) {
    requests_.push_back(request);
    lengths_.push_back(length);
  }
  void check_lengths() { check_lengths_ = true; }

  void wait() override {
    std::vector<MPI_Status> statuses(requests_.size());
    PMPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), statuses.data());
    check(statuses);
  }

  bool test() override {
    int done = 0;
    std::vector<MPI_Status> statuses(requests_.size());
    PMPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, statuses.data());
    if (done != 0) check(statuses);
    return done != 0;
  }

 private:
  void check(std::vector<MPI_Status>& statuses) const {
    if (!check_lengths_) return;
    for (std::size_t i = 0; i < statuses.size(); ++i) require_length(statuses[i], lengths_[i]);
  }

  std::vector<MPI_Request> requests_;
  std::vector<std::size_t> lengths_;
  bool check_lengths_ = false;
};

}  // namespace

// --- life ----------------------------------------------------------------------------------------

std::unique_ptr<MpiCommunicator> MpiCommunicator::duplicate_of(MPI_Comm comm) {
  MPI_Group group = MPI_GROUP_NULL;
  MPI_Comm copy = MPI_COMM_NULL;
  require(PMPI_Comm_group(comm, &group), "MPI_Comm_group");
  require(PMPI_Comm_create(comm, group, &copy), "MPI_Comm_create");
  PMPI_Group_free(&group);
  return std::make_unique<MpiCommunicator>(copy);
}

MpiCommunicator::MpiCommunicator(MPI_Comm owned) : comm_(owned) {
  PMPI_Comm_set_errhandler(comm_, MPI_ERRORS_ARE_FATAL);
  PMPI_Comm_set_name(comm_, "h5scr");
  PMPI_Comm_rank(comm_, &rank_);
  PMPI_Comm_size(comm_, &size_);
}

MpiCommunicator::~MpiCommunicator() {
  int finalized = 0;
  PMPI_Finalized(&finalized);
  if (finalized != 0) return;
  attendance_.reset();
  PMPI_Comm_free(&comm_);
}

std::unique_ptr<Communicator> MpiCommunicator::split(int color, int key) {
  MPI_Comm part = MPI_COMM_NULL;
  PMPI_Comm_split(comm_, color == kNoColor ? MPI_UNDEFINED : color, key, &part);
  if (part == MPI_COMM_NULL) return nullptr;
  return std::make_unique<MpiCommunicator>(part);
}

std::unique_ptr<Communicator> MpiCommunicator::duplicate() { return duplicate_of(comm_); }

std::uint64_t MpiCommunicator::messages_sent() { return message_count; }

std::size_t MpiCommunicator::set_piece_limit(std::size_t bytes) {
  return std::exchange(piece_limit, std::clamp<std::size_t>(bytes, 1, 1U << 30U));
}

// --- point to point ------------------------------------------------------------------------------

void MpiCommunicator::send(std::span<const std::byte> data, int to, int tag) {
  for_each_piece(data, [&](auto piece) {
    PMPI_Send(piece.data(), to_count(piece.size()), MPI_BYTE, to, tag, comm_);
    ++message_count;
  });
}

void MpiCommunicator::receive(std::span<std::byte> buffer, int from, int tag) {
  for_each_piece(buffer, [&](auto piece) {
    MPI_Status status;
    PMPI_Recv(piece.data(), to_count(piece.size()), MPI_BYTE, from, tag, comm_, &status);
    require_length(status, piece.size());
  });
}

Request MpiCommunicator::start_send(std::span<const std::byte> data, int to, int tag) {
  auto pending = std::make_unique<PendingPieces>();
  for_each_piece(data, [&](auto piece) {
    MPI_Request request = MPI_REQUEST_NULL;
    PMPI_Isend(piece.data(), to_count(piece.size()), MPI_BYTE, to, tag, comm_, &request);
    ++message_count;
    pending->add(request, piece.size());
  });
  return Request(std::move(pending));
}

Request MpiCommunicator::start_receive(std::span<std::byte> buffer, int from, int tag) {
  auto pending = std::make_unique<PendingPieces>();
  pending->check_lengths();
  for_each_piece(buffer, [&](auto piece) {
    MPI_Request request = MPI_REQUEST_NULL;
    PMPI_Irecv(piece.data(), to_count(piece.size()), MPI_BYTE, from, tag, comm_, &request);
    pending->add(request, piece.size());
  });
  return Request(std::move(pending));
}

// --- collective ----------------------------------------------------------------------------------

void MpiCommunicator::barrier() { PMPI_Barrier(comm_); }

void MpiCommunicator::broadcast(std::span<std::byte> buffer, int root) {
  for_each_piece(buffer, [&](auto piece) {
    PMPI_Bcast(piece.data(), to_count(piece.size()), MPI_BYTE, root, comm_);
  });
}

template <typename T>
void MpiCommunicator::reduce(std::span<T> values, MPI_Datatype type, ReduceOp op) {
  const std::size_t most = std::max<std::size_t>(1, piece_limit / sizeof(T));
  while (!values.empty()) {
    const auto piece = values.first(std::min(values.size(), most));
    PMPI_Allreduce(MPI_IN_PLACE, piece.data(), to_count(piece.size()), type, native_op(op), comm_);
    values = values.subspan(piece.size());
  }
}

void MpiCommunicator::all_reduce(std::span<std::int64_t> values, ReduceOp op) {
  reduce(values, MPI_INT64_T, op);
}

void MpiCommunicator::all_reduce(std::span<std::uint64_t> values, ReduceOp op) {
  reduce(values, MPI_UINT64_T, op);
}

void MpiCommunicator::all_reduce(std::span<double> values, ReduceOp op) {
  reduce(values, MPI_DOUBLE, op);
}

std::uint64_t MpiCommunicator::exclusive_scan(std::uint64_t value, ReduceOp op) {
  std::uint64_t before = 0;
  PMPI_Exscan(&value, &before, 1, MPI_UINT64_T, native_op(op), comm_);
  if (rank_ > 0) return before;  // MPI leaves the result of rank 0 undefined
  return op == ReduceOp::kMin ? std::numeric_limits<std::uint64_t>::max() : 0;
}

// Some implementations forward the blocks of many ranks in one message, so the limit holds for the
// blocks of all ranks together. Long blocks go in slices, put in their places afterwards.
template <typename Collect>
std::vector<std::byte> MpiCommunicator::collect(std::span<const std::byte> block, bool wanted,
                                                Collect collect) {
  const auto ranks = static_cast<std::size_t>(size_);
  const std::size_t slice_limit = std::max<std::size_t>(1, piece_limit / ranks);
  std::vector<std::byte> result(wanted ? block.size() * ranks : 0);
  if (block.size() <= slice_limit) {
    collect(block, result.data());
    return result;
  }
  std::vector<std::byte> slices(wanted ? slice_limit * ranks : 0);
  for (std::size_t offset = 0; offset < block.size(); offset += slice_limit) {
    const std::size_t length = std::min(slice_limit, block.size() - offset);
    collect(block.subspan(offset, length), slices.data());
    for (std::size_t rank = 0; wanted && rank < ranks; ++rank) {
      std::copy_n(slices.data() + rank * length, length,
                  result.data() + rank * block.size() + offset);
    }
  }
  return result;
}

std::vector<std::byte> MpiCommunicator::gather(std::span<const std::byte> block, int root) {
  return collect(block, rank_ == root, [&](auto slice, std::byte* to) {
    const int count = to_count(slice.size());
    PMPI_Gather(slice.data(), count, MPI_BYTE, to, count, MPI_BYTE, root, comm_);
  });
}

std::vector<std::byte> MpiCommunicator::all_gather(std::span<const std::byte> block) {
  return collect(block, true, [&](auto slice, std::byte* to) {
    const int count = to_count(slice.size());
    PMPI_Allgather(slice.data(), count, MPI_BYTE, to, count, MPI_BYTE, comm_);
  });
}

// --- sparse exchange -----------------------------------------------------------------------------
//
// The NBX consensus (Hoefler, Siebert, Lumsdaine 2010): every rank starts synchronous sends, which
// complete only when matched, and receives whatever comes. Once its own sends are complete it
// enters a non-blocking barrier; when the barrier completes, all sends of all ranks have been
// received.
//
// Why consecutive exchanges do not mix: a rank may leave exchange n while another has not yet seen
// the barrier of n complete and still probes; a message of exchange n+1 must not match there. So
// the tag alternates. Two tags are enough: nobody leaves n+1 before all ranks entered its barrier,
// hence left n, hence no message of n+2 is sent while somebody still probes for n.
//
// A message of the piece limit or more sends its first piece this way: a full piece says that more
// follows. What follows goes point to point afterwards, when both sides know of each other.

RankMessage MpiCommunicator::receive_matched(MPI_Message& matched, const MPI_Status& status) {
  int length = 0;
  PMPI_Get_count(&status, MPI_BYTE, &length);
  RankMessage message{status.MPI_SOURCE, std::vector<std::byte>(static_cast<std::size_t>(length))};
  PMPI_Mrecv(message.data.data(), length, MPI_BYTE, &matched, MPI_STATUS_IGNORE);
  return message;
}

void MpiCommunicator::exchange_first_pieces(const std::vector<RankMessage>& messages,
                                            std::vector<RankMessage>& received) {
  const int tag = kExchangeTag + static_cast<int>(exchanges_++ % 2);
  std::vector<MPI_Request> sends;
  for (const RankMessage& message : messages) {
    const std::size_t length = std::min(message.data.size(), piece_limit);
    PMPI_Issend(message.data.data(), to_count(length), MPI_BYTE, message.rank, tag, comm_,
                &sends.emplace_back(MPI_REQUEST_NULL));
    ++message_count;
  }
  MPI_Request consensus = MPI_REQUEST_NULL;
  int all_done = 0;
  while (all_done == 0) {
    int found = 0;
    MPI_Message matched = MPI_MESSAGE_NULL;
    MPI_Status status;
    PMPI_Improbe(MPI_ANY_SOURCE, tag, comm_, &found, &matched, &status);
    if (found != 0) received.push_back(receive_matched(matched, status));
    if (consensus != MPI_REQUEST_NULL) {
      PMPI_Test(&consensus, &all_done, MPI_STATUS_IGNORE);
      continue;
    }
    int sent = 0;
    PMPI_Testall(static_cast<int>(sends.size()), sends.data(), &sent, MPI_STATUSES_IGNORE);
    if (sent != 0) PMPI_Ibarrier(comm_, &consensus);
  }
}

void MpiCommunicator::exchange_remainders(const std::vector<RankMessage>& messages,
                                          std::vector<RankMessage>& received) {
  std::vector<std::uint64_t> lengths;
  lengths.reserve(messages.size());  // sends point into it
  std::vector<Request> sends;
  for (const RankMessage& message : messages) {
    if (message.data.size() < piece_limit) continue;
    lengths.push_back(message.data.size());
    const std::span<const std::uint64_t> length(&lengths.back(), 1);
    sends.push_back(start_send(std::as_bytes(length), message.rank, kRemainderTag));
    sends.push_back(
        start_send(std::span(message.data).subspan(piece_limit), message.rank, kRemainderTag));
  }
  for (RankMessage& message : received) {
    if (message.data.size() != piece_limit) continue;
    std::uint64_t length = 0;
    receive(std::as_writable_bytes(std::span(&length, 1)), message.rank, kRemainderTag);
    message.data.resize(length);
    receive(std::span(message.data).subspan(piece_limit), message.rank, kRemainderTag);
  }
  for (Request& send : sends) send.wait();
}

std::vector<RankMessage> MpiCommunicator::sparse_exchange(std::vector<RankMessage> messages) {
  std::vector<RankMessage> received;
  const auto own = std::ranges::find(messages, rank_, &RankMessage::rank);
  RankMessage kept;
  const bool to_self = own != messages.end();
  if (to_self) {
    kept = std::move(*own);
    messages.erase(own);
  }
  exchange_first_pieces(messages, received);
  exchange_remainders(messages, received);
  if (to_self) received.push_back(std::move(kept));
  std::ranges::sort(received, {}, &RankMessage::rank);
  return received;
}

}  // namespace scr
