// AttendanceList: who has come to a meeting that takes long, so that a warning can name the others.
//
// Costs nothing until a meeting takes long. Then each rank that waits sends a small note to a few
// ranks, the keepers of the list, spread over the run; of the keepers that wait themselves, the one
// with the lowest rank speaks. Notes for a keeper that is missing lie there until it comes. If none
// of the keepers has come, nobody knows more than that.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "core/mpi/mpi_communicator.hpp"

namespace scr {

class AttendanceList {
 public:
  // `comm` must outlive this; its messages of our tag are ours.
  explicit AttendanceList(MPI_Comm comm);
  ~AttendanceList();
  AttendanceList(const AttendanceList&) = delete;
  AttendanceList& operator=(const AttendanceList&) = delete;

  // Tells the keepers that this rank waits at the meeting of that number. Once a meeting.
  void sign(std::uint64_t meeting);
  // Whether this rank is the one to speak, as far as it knows by now.
  bool is_speaker(std::uint64_t meeting);
  // "rank 3", "ranks 0, 2 and 5", of bounded length; for the speaker.
  std::string missing(std::uint64_t meeting);

 private:
  struct Note {
    std::uint64_t meeting = 0;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  void read_notes();

  MPI_Comm comm_;
  int rank_ = 0;
  int size_ = 0;
  std::vector<int> keepers_;         // ascending
  std::vector<std::uint64_t> seen_;  // the last meeting that each rank waited at; on keepers
  std::deque<Note> notes_;           // sent; does not move them
};

}  // namespace scr
