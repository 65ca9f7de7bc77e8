#include "core/mpi/attendance_list.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <thread>

#include "core/base/log.hpp"

namespace scr {
namespace {

constexpr int kNoteTag = Communicator::kMaxTag + 20;
constexpr int kMeetingTag = Communicator::kMaxTag + 21;
constexpr int kMostKeepers = 8;
constexpr std::size_t kMostNamed = 32;

}  // namespace

AttendanceList::AttendanceList(MPI_Comm comm) : comm_(comm) {
  PMPI_Comm_rank(comm_, &rank_);
  PMPI_Comm_size(comm_, &size_);
  const int count = std::min(size_, kMostKeepers);
  for (int i = 0; i < count; ++i) {
    keepers_.push_back(static_cast<int>(std::int64_t{i} * size_ / count));
  }
  if (std::ranges::binary_search(keepers_, rank_)) seen_.resize(static_cast<std::size_t>(size_));
}

AttendanceList::~AttendanceList() {
  int finalized = 0;
  PMPI_Finalized(&finalized);
  if (finalized != 0) return;
  // All ranks have met since the last note was sent, so it is on its way or has arrived.
  read_notes();
  for (Note& note : notes_) {
    if (note.request != MPI_REQUEST_NULL) PMPI_Wait(&note.request, MPI_STATUS_IGNORE);
  }
}

void AttendanceList::sign(std::uint64_t meeting) {
  for (const int keeper : keepers_) {
    if (keeper == rank_) continue;
    Note& note = notes_.emplace_back();
    note.meeting = meeting;
    PMPI_Isend(&note.meeting, sizeof note.meeting, MPI_BYTE, keeper, kNoteTag, comm_,
               &note.request);
  }
}

void AttendanceList::read_notes() {
  while (true) {
    int found = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    PMPI_Improbe(MPI_ANY_SOURCE, kNoteTag, comm_, &found, &message, &status);
    if (found == 0) break;
    std::uint64_t meeting = 0;
    PMPI_Mrecv(&meeting, sizeof meeting, MPI_BYTE, &message, MPI_STATUS_IGNORE);
    auto& seen = seen_[static_cast<std::size_t>(status.MPI_SOURCE)];
    seen = std::max(seen, meeting);
  }
  while (!notes_.empty()) {
    int done = 0;
    PMPI_Test(&notes_.front().request, &done, MPI_STATUS_IGNORE);
    if (done == 0) break;
    notes_.pop_front();
  }
}

bool AttendanceList::is_speaker(std::uint64_t meeting) {
  read_notes();
  if (seen_.empty()) return false;
  return std::ranges::none_of(keepers_, [&](int keeper) {
    return keeper < rank_ && seen_[static_cast<std::size_t>(keeper)] >= meeting;
  });
}

std::string AttendanceList::missing(std::uint64_t meeting) {
  read_notes();
  std::vector<int> ranks;
  for (int i = 0; i < size_; ++i) {
    if (i != rank_ && seen_[static_cast<std::size_t>(i)] < meeting) ranks.push_back(i);
  }
  const std::size_t more = ranks.size() > kMostNamed ? ranks.size() - kMostNamed : 0;
  ranks.resize(ranks.size() - more);
  return fmt::format("rank{} {}{}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "),
                     more > 0 ? fmt::format(" and {} more", more) : "");
}

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Lets others run: at once while the wait is short, later by sleeping for a hundredth of it.
void pause(double waited) {
  if (waited < 0.01) {
    ::sched_yield();
  } else {
    std::this_thread::sleep_for(std::chrono::duration<double>(std::min(waited / 100, 0.001)));
  }
}

// What a rank says and does while it waits.
class Vigil {
 public:
  Vigil(AttendanceList& list, const Communicator::Meeting& meeting, std::uint64_t number)
      : list_(list), meeting_(meeting), number_(number), next_warning_(meeting.warn_after) {}

  // The first sign of a long wait comes well before anyone speaks of it.
  static double sign_after(const Communicator::Meeting& meeting) {
    double first = meeting.warn_after;
    if (meeting.give_up_after > 0 && (first <= 0 || meeting.give_up_after < first)) {
      first = meeting.give_up_after;
    }
    return first / 10;
  }

  void go_on(double waited) {
    if (!signed_) {
      list_.sign(number_);
      signed_ = true;
    }
    if (meeting_.warn_after > 0 && waited >= next_warning_) {
      next_warning_ = waited + meeting_.warn_after;
      if (list_.is_speaker(number_)) {
        log::warning("waiting for {} since {:.0f} s: not yet at {}", list_.missing(number_), waited,
                     meeting_.what);
      }
    }
    if (meeting_.give_up_after > 0 && waited >= meeting_.give_up_after) give_up(waited);
  }

 private:
  // The others wait a little longer, so that the one that knows the names can say them.
  void give_up(double waited) {
    const bool speaker = list_.is_speaker(number_);
    if (!speaker && waited < meeting_.give_up_after * 1.1 + 1) return;
    log::error(
        "{} did not come to {} within SCR_COLLECTIVE_TIMEOUT={:g} s: ending the run. The program "
        "must make this call on all ranks",
        speaker ? list_.missing(number_) : "some ranks", meeting_.what, meeting_.give_up_after);
    PMPI_Abort(MPI_COMM_WORLD, 1);
  }

  AttendanceList& list_;
  const Communicator::Meeting& meeting_;
  std::uint64_t number_;
  double next_warning_;
  bool signed_ = false;
};

}  // namespace

// A barrier in which each rank hears, directly or through others, of all: in each round twice as
// many. (Open MPI makes little progress on MPI_Ibarrier while it is only tested: it costs several
// times as much.) Messages of one meeting cannot be taken for those of the next: within one, each
// comes from another rank, and MPI keeps the order of those of one rank.
void MpiCommunicator::meet(const Meeting& meeting) {
  const std::uint64_t number = ++meetings_;
  const double sign_after = Vigil::sign_after(meeting);
  if (sign_after <= 0) return barrier();
  const auto start = Clock::now();
  std::optional<Vigil> vigil;
  for (int distance = 1; distance < size_; distance *= 2) {
    std::array<MPI_Request, 2> requests = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    PMPI_Irecv(nullptr, 0, MPI_BYTE, (rank_ + size_ - distance) % size_, kMeetingTag, comm_,
               &requests[0]);
    PMPI_Isend(nullptr, 0, MPI_BYTE, (rank_ + distance) % size_, kMeetingTag, comm_, &requests[1]);
    while (true) {
      int done = 0;
      PMPI_Testall(2, requests.data(), &done, MPI_STATUSES_IGNORE);
      if (done != 0) break;
      const double waited = seconds_since(start);
      if (waited >= sign_after) {
        if (!attendance_) attendance_ = std::make_unique<AttendanceList>(comm_);
        if (!vigil) vigil.emplace(*attendance_, meeting, number);
        vigil->go_on(waited);
      }
      pause(waited);
    }
  }
}

}  // namespace scr
