// OpenFile: what MPI-IO keeps for an open file: view, pointers, modes. The bytes are those of a
// SharedFile.
//
// Functions return an error class of MPI, having logged what it cannot tell; calling the error
// handler is left to file_calls.cpp. Those that MPI says to be collective are, and come to an end
// on all processes also if some of them fail. Any thread may call; no lock is held inside a call of
// MPI or a collective call of the SharedFile.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "core/mpi/mpi_communicator.hpp"
#include "core/mpiio/hints.hpp"
#include "core/mpiio/transfer.hpp"

namespace scr::mpiio {

// A datatype that the program may free while we still need it.
class KeptType {
 public:
  explicit KeptType(MPI_Datatype type);
  ~KeptType();
  KeptType(const KeptType&) = delete;
  KeptType& operator=(const KeptType&) = delete;
  // A type that the program owns.
  MPI_Datatype for_program() const;

 private:
  MPI_Datatype type_;
  bool owned_;
};

class OpenFile {
 public:
  struct Parts {
    std::unique_ptr<shared_file::SharedFile> file;
    std::shared_ptr<MpiCommunicator> comm;
    int amode = 0;
    Hints hints;
    bool seals = false;      // its close is a collective point of the program
    bool is_strict = false;  // others see a write when it returns
  };
  explicit OpenFile(Parts parts);

  // A genuine file of MPI, which is this one to the program.
  MPI_File handle() const { return handle_; }
  bool seals() const { return parts_.seals; }
  std::shared_ptr<MpiCommunicator> processes_of_file() const { return parts_.comm; }
  // Of the processes that have it open.
  int processes() const { return parts_.comm->size(); }
  bool is_first() const { return parts_.comm->rank() == 0; }
  int amode() const { return parts_.amode; }
  int get_group(MPI_Group& group) const { return PMPI_Comm_group(parts_.comm->native(), &group); }
  const Hints& hints() const { return parts_.hints; }

  // Collective, once, before any other call: makes the handle and sets the pointers.
  int start(MPI_Info info);
  // Collective: closes the SharedFile. Nothing but handle() is left.
  int close();

  // `way` as in file_calls.h.
  struct Request {
    int way = 0;
    MPI_Offset offset = 0;
    void* buffer = nullptr;
    MPI_Count count = 0;
    MPI_Datatype type = MPI_DATATYPE_NULL;
  };
  int transfer(const Request& request, std::uint64_t& moved);
  // Split collectives: one at a time.
  int begin(const Request& request);
  int end(int way, std::uint64_t& moved);

  int get_size(MPI_Offset& size);
  int set_size(MPI_Offset size);
  int preallocate(MPI_Offset size);
  int sync();

  int set_view(MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype,
               const char* representation);
  void get_view(MPI_Offset& displacement, MPI_Datatype& etype, MPI_Datatype& filetype,
                std::string& representation);

  int seek(MPI_Offset offset, int whence);
  int seek_shared(MPI_Offset offset, int whence);
  int get_position(MPI_Offset& offset);
  int get_position_shared(MPI_Offset& offset);
  int get_byte_offset(MPI_Offset offset, MPI_Offset& byte);

  int set_atomicity(bool atomic);
  bool is_atomic();

  // Makes all writes that have returned visible to the other processes.
  int publish();

 private:
  struct State {
    FileView view;
    std::int64_t pointer = 0;  // in etypes
    bool atomic = false;
    std::string representation = "native";
    std::shared_ptr<const KeptType> etype;
    std::shared_ptr<const KeptType> filetype;
  };

  bool is_sequential() const { return (parts_.amode & MPI_MODE_SEQUENTIAL) != 0; }
  bool is_writable() const { return (parts_.amode & MPI_MODE_RDONLY) == 0; }
  State state() const;
  Status make_handle(MPI_Info info);
  Status go_to_end();

  int check(const Request& request) const;
  int describe(const Request& request, const FileView& view, Buffer& buffer) const;
  int place(const Request& request, std::uint64_t etypes, std::uint64_t& first);
  int place_in_order(std::uint64_t etypes, std::uint64_t& first);
  Result<std::uint64_t> move(const State& state, std::uint64_t position, const Buffer& buffer,
                             bool write);
  Result<std::uint64_t> move_alone(const State& state, std::uint64_t position, const Buffer& buffer,
                                   bool write);
  int new_view(MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype,
               const char* representation, State& fresh) const;
  int reset_shared_pointer(State& fresh);
  Result<std::int64_t> seek_from(MPI_Offset offset, int whence, std::int64_t current);
  int agree(int code);

  Parts parts_;
  MPI_File handle_ = MPI_FILE_NULL;

  mutable std::mutex mutex_;  // of the following
  State state_;
  bool used_shared_pointer_ = false;
  struct Split {
    int way;
    std::uint64_t moved;
  };
  std::optional<Split> split_;

  bool told_of_failure_ = false;  // of the last publish()
  std::mutex publishing_;         // held in publish(), never in collective calls
  bool closed_ = false;
};

}  // namespace scr::mpiio
