#include "core/mpiio/open_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "core/base/filesystem.hpp"
#include "core/base/log.hpp"
#include "core/mpi/datatype_contents.hpp"
#include "core/mpiio/errors.hpp"
#include "core/mpiio/file_calls.h"
#include "core/mpiio/open_files.hpp"

namespace scr::mpiio {
namespace {

bool is_write(int way) { return (way & SCR_WRITE) != 0; }
bool is_collective(int way) { return (way & SCR_COLLECTIVE) != 0; }
int pointer_of(int way) { return way & SCR_POINTER; }
bool is_ordered(int way) { return is_collective(way) && pointer_of(way) == SCR_SHARED; }

bool is_derived(MPI_Datatype type) {
  const auto combiner = mpi::combiner_of(type);
  return combiner.ok() && !mpi::is_predefined(*combiner);
}

// A name on this node that nobody else has.
std::string handle_file_name() { return temporary_beside("/dev/shm/h5scr-mpiio").path; }

}  // namespace

KeptType::KeptType(MPI_Datatype type) : type_(type), owned_(is_derived(type)) {
  if (owned_) PMPI_Type_dup(type, &type_);
}

KeptType::~KeptType() {
  int finalized = 0;
  PMPI_Finalized(&finalized);
  if (owned_ && finalized == 0) PMPI_Type_free(&type_);
}

MPI_Datatype KeptType::for_program() const {
  MPI_Datatype copy = type_;
  if (owned_) PMPI_Type_dup(type_, &copy);
  return copy;
}

// --- opening and closing -------------------------------------------------------------------------

OpenFile::OpenFile(Parts parts) : parts_(std::move(parts)) {
  state_.etype = std::make_shared<const KeptType>(MPI_BYTE);
  state_.filetype = state_.etype;
}

// MPI knows an empty file of this process, which is gone as soon as it is open: to MPI the
// program's file is just something with an error handler, hints and a Fortran number. Each process
// has one for itself, since MPI libraries want a file of several processes to be on a file system
// of all.
Status OpenFile::make_handle(MPI_Info info) {
  const std::string name = handle_file_name();
  auto made = file_system().open(
      name, {.access = OpenOptions::Access::kReadWrite, .create = true, .mode = 0600});
  const int code = PMPI_File_open(MPI_COMM_SELF, name.c_str(), MPI_MODE_RDWR, info, &handle_);
  const bool all = parts_.comm->all_true(code == MPI_SUCCESS);
  (void)file_system().remove_if_exists(name);
  if (all) return {};
  if (code == MPI_SUCCESS) PMPI_File_close(&handle_);
  SCR_RETURN_IF_ERROR(made.status());
  if (code != MPI_SUCCESS) return mpi::mpi_status(code, "open a handle of MPI");
  return Status(StatusCode::kIoError, "cannot open a handle of MPI: it failed on another process");
}

Status OpenFile::go_to_end() {
  auto size = parts_.file->size();
  if (size.ok()) state_.pointer = static_cast<std::int64_t>(*size);
  used_shared_pointer_ = true;
  Status set;
  if (size.ok() && parts_.comm->rank() == 0) set = parts_.file->set_pointer(*size);
  return agree_all(*parts_.comm, size.ok() ? set : size.status(), "going to the end of a file");
}

int OpenFile::start(MPI_Info info) {
  std::array<std::int64_t, 2> modes = {parts_.amode, -parts_.amode};
  parts_.comm->all_reduce(std::span<std::int64_t>(modes), ReduceOp::kMax);
  int code = modes[0] == -modes[1] ? MPI_SUCCESS : MPI_ERR_NOT_SAME;
  if (code == MPI_SUCCESS && (parts_.amode & MPI_MODE_APPEND) != 0) code = report(go_to_end());
  if (code == MPI_SUCCESS) code = report(make_handle(info));
  if (code != MPI_SUCCESS) (void)close();
  return code;
}

int OpenFile::close() {
  (void)publish();  // the file itself knows of a failure
  {
    const std::lock_guard lock(publishing_);
    closed_ = true;
  }
  const int code = report(parts_.file->close());
  parts_.file.reset();
  parts_.comm.reset();
  state_.etype.reset();
  state_.filetype.reset();
  return code;
}

int OpenFile::publish() {
  const std::lock_guard lock(publishing_);
  if (closed_ || !is_writable()) return MPI_SUCCESS;
  // Every call of MPI tries again, until the file is closed: one line says enough.
  const Status status = parts_.file->publish();
  const bool told = std::exchange(told_of_failure_, !status.ok());
  return told ? error_class(status) : report(status);
}

OpenFile::State OpenFile::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

// The worst of all processes' codes, so that all of them know of a failure.
int OpenFile::agree(int code) {
  const auto worst = parts_.comm->all_reduce(static_cast<std::int64_t>(code), ReduceOp::kMax);
  return code != MPI_SUCCESS ? code : static_cast<int>(worst);
}

// --- reading and writing -------------------------------------------------------------------------

int OpenFile::check(const Request& request) const {
  const bool write = is_write(request.way);
  if (write && !is_writable()) return MPI_ERR_READ_ONLY;
  if (!write && (parts_.amode & MPI_MODE_WRONLY) != 0) return MPI_ERR_ACCESS;
  if (is_sequential() && pointer_of(request.way) != SCR_SHARED)
    return MPI_ERR_UNSUPPORTED_OPERATION;
  if (request.offset < 0) return MPI_ERR_ARG;
  if (request.count < 0) return MPI_ERR_COUNT;
  return request.type == MPI_DATATYPE_NULL ? MPI_ERR_TYPE : MPI_SUCCESS;
}

// Takes the datatype apart.
int OpenFile::describe(const Request& request, const FileView& view, Buffer& buffer) const {
  if (const int code = check(request); code != MPI_SUCCESS) return code;
  auto flat = mpi::flatten(request.type);
  if (!flat.ok()) {
    (void)report(flat.status());
    return MPI_ERR_TYPE;
  }
  buffer = {request.buffer, request.count, *std::move(flat)};
  if (view.etype_size() == 0) return buffer.bytes() == 0 ? MPI_SUCCESS : MPI_ERR_IO;
  // MPI wants whole etypes.
  return buffer.bytes() % view.etype_size() == 0 ? MPI_SUCCESS : MPI_ERR_IO;
}

// Where a transfer begins, in etypes; the pointer moves on by all that was asked for, also if less
// is there to be read, as the standard has it.
int OpenFile::place(const Request& request, std::uint64_t etypes, std::uint64_t& first) {
  switch (pointer_of(request.way)) {
    case SCR_INDIVIDUAL: {
      const std::lock_guard lock(mutex_);
      first = static_cast<std::uint64_t>(state_.pointer);
      state_.pointer += static_cast<std::int64_t>(etypes);
      return MPI_SUCCESS;
    }
    case SCR_SHARED: {
      auto before = parts_.file->advance_pointer(etypes);
      if (!before.ok()) return report(before.status());
      first = *before;
      return MPI_SUCCESS;
    }
    default:
      first = static_cast<std::uint64_t>(request.offset);
      return MPI_SUCCESS;
  }
}

// Rank by rank from the shared pointer on.
int OpenFile::place_in_order(std::uint64_t etypes, std::uint64_t& first) {
  const std::uint64_t before = parts_.comm->exclusive_scan_sum(etypes);
  const std::uint64_t total = parts_.comm->all_reduce(etypes, ReduceOp::kSum);
  std::array<std::uint64_t, 2> from_root = {0, MPI_SUCCESS};
  if (parts_.comm->rank() == 0) {
    auto start = parts_.file->advance_pointer(total);
    if (start.ok()) from_root[0] = *start;
    from_root[1] = static_cast<std::uint64_t>(report(start.status()));
  }
  parts_.comm->broadcast(std::as_writable_bytes(std::span(from_root)), 0);
  first = from_root[0] + before;
  return static_cast<int>(from_root[1]);
}

Result<std::uint64_t> OpenFile::move(const State& state, std::uint64_t position,
                                     const Buffer& buffer, bool write) {
  if (!write) return read(*parts_.file, state.view, position, buffer);
  const Status status = mpiio::write(*parts_.file, state.view, position, buffer);
  if (parts_.file->has_unpublished()) OpenFiles::process().note_unpublished();
  SCR_RETURN_IF_ERROR(status);
  return buffer.bytes();
}

// The same with nobody else in between (atomic mode).
Result<std::uint64_t> OpenFile::move_alone(const State& state, std::uint64_t position,
                                           const Buffer& buffer, bool write) {
  SCR_RETURN_IF_ERROR(parts_.file->lock());
  auto moved = move(state, position, buffer, write);
  const Status published = write ? parts_.file->publish() : Status();
  SCR_RETURN_IF_ERROR(parts_.file->unlock());
  SCR_RETURN_IF_ERROR(published);
  return moved;
}

int OpenFile::transfer(const Request& request, std::uint64_t& moved) {
  moved = 0;
  const State state = this->state();
  const bool write = is_write(request.way);
  Buffer buffer;
  int code = describe(request, state.view, buffer);
  if (code != MPI_SUCCESS) buffer.count = 0;
  const std::uint64_t etype = std::max<std::uint64_t>(state.view.etype_size(), 1);
  std::uint64_t first = 0;
  if (pointer_of(request.way) == SCR_SHARED) {
    const std::lock_guard lock(mutex_);
    used_shared_pointer_ = true;
  }
  // The place of the shared pointer, a lock, and what is read of this file tell other processes of
  // this one's writes, which must not be seen before those to other files that came first.
  if (pointer_of(request.way) == SCR_SHARED || state.atomic || !write) {
    const int published = OpenFiles::process().publish();
    if (code == MPI_SUCCESS) code = published;
    if (code != MPI_SUCCESS) buffer.count = 0;
  }
  if (is_ordered(request.way)) {
    const int placed = place_in_order(buffer.bytes() / etype, first);
    if (code == MPI_SUCCESS) code = placed;
  } else if (code == MPI_SUCCESS) {
    code = place(request, buffer.bytes() / etype, first);
  }
  if (code != MPI_SUCCESS) return code;
  std::uint64_t position = 0;
  if (__builtin_mul_overflow(first, etype, &position)) return MPI_ERR_ARG;
  auto result = state.atomic ? move_alone(state, position, buffer, write)
                             : move(state, position, buffer, write);
  const bool told_now = is_collective(request.way) || (write && parts_.is_strict);
  const int published = told_now ? OpenFiles::process().publish() : MPI_SUCCESS;
  if (!result.ok()) return report(result.status());
  if (published != MPI_SUCCESS) return published;
  moved = *result;
  return MPI_SUCCESS;
}

// The work is done in the first half.
int OpenFile::begin(const Request& request) {
  {
    const std::lock_guard lock(mutex_);
    if (split_) return MPI_ERR_OTHER;
    split_ = Split{request.way, 0};
  }
  std::uint64_t moved = 0;
  const int code = transfer(request, moved);
  const std::lock_guard lock(mutex_);
  if (code == MPI_SUCCESS) {
    split_->moved = moved;
  } else {
    split_.reset();
  }
  return code;
}

int OpenFile::end(int way, std::uint64_t& moved) {
  const std::lock_guard lock(mutex_);
  if (!split_ || split_->way != way) return MPI_ERR_OTHER;
  moved = split_->moved;
  split_.reset();
  return MPI_SUCCESS;
}

// --- size ----------------------------------------------------------------------------------------

int OpenFile::get_size(MPI_Offset& size) {
  if (const int code = OpenFiles::process().publish(); code != MPI_SUCCESS) return code;
  auto found = parts_.file->size();
  if (!found.ok()) return report(found.status());
  size = static_cast<MPI_Offset>(*found);
  return MPI_SUCCESS;
}

int OpenFile::set_size(MPI_Offset size) {
  if (size < 0) return MPI_ERR_ARG;
  if (!is_writable()) return MPI_ERR_READ_ONLY;
  if (is_sequential()) return MPI_ERR_UNSUPPORTED_OPERATION;
  (void)OpenFiles::process().publish();  // a failure here fails below, on all processes
  return report(parts_.file->set_size(static_cast<std::uint64_t>(size)));
}

int OpenFile::preallocate(MPI_Offset size) {
  if (size < 0) return MPI_ERR_ARG;
  if (!is_writable()) return MPI_ERR_READ_ONLY;
  if (is_sequential()) return MPI_ERR_UNSUPPORTED_OPERATION;
  (void)OpenFiles::process().publish();  // a failure here fails below, on all processes
  return report(parts_.file->reserve(static_cast<std::uint64_t>(size)));
}

int OpenFile::sync() {
  (void)OpenFiles::process().publish();
  return report(parts_.file->sync());
}

// --- views ---------------------------------------------------------------------------------------

int OpenFile::new_view(MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype,
                       const char* representation, State& fresh) const {
  if (representation == nullptr) return MPI_ERR_ARG;
  fresh.representation = representation;
  if (fresh.representation != "native" && fresh.representation != "internal")
    return MPI_ERR_UNSUPPORTED_DATAREP;
  // In a sequential file the view begins where the shared pointer is, and only there.
  const bool current = displacement == MPI_DISPLACEMENT_CURRENT;
  if (current != is_sequential() || (displacement < 0 && !current)) return MPI_ERR_ARG;
  auto flat_etype = mpi::flatten(etype);
  auto flat = mpi::flatten(filetype);
  if (!flat_etype.ok() || !flat.ok()) {
    (void)report(flat_etype.ok() ? flat.status() : flat_etype.status());
    return MPI_ERR_TYPE;
  }
  auto view = FileView::make(current ? 0 : static_cast<std::uint64_t>(displacement),
                             flat_etype->size, *flat);
  if (!view.ok()) return report(view.status());
  fresh.view = *std::move(view);
  fresh.etype = std::make_shared<const KeptType>(etype);
  fresh.filetype = etype == filetype ? fresh.etype : std::make_shared<const KeptType>(filetype);
  return MPI_SUCCESS;
}

// Rank 0 does it, while all others wait.
int OpenFile::reset_shared_pointer(State& fresh) {
  std::array<std::uint64_t, 2> from_root = {0, MPI_SUCCESS};
  if (parts_.comm->rank() == 0) {
    Status status;
    if (is_sequential()) {
      auto now = parts_.file->advance_pointer(0);
      status = now.status();
      if (now.ok() && !state_.view.is_empty()) {
        auto byte = state_.view.offset_of(*now * state_.view.etype_size());
        status = byte.status();
        if (byte.ok()) from_root[0] = *byte;
      }
    }
    if (status.ok()) status = parts_.file->set_pointer(0);
    from_root[1] = static_cast<std::uint64_t>(report(status));
  }
  parts_.comm->broadcast(std::as_writable_bytes(std::span(from_root)), 0);
  if (is_sequential()) fresh.view = fresh.view.moved_to(from_root[0]);
  return static_cast<int>(from_root[1]);
}

int OpenFile::set_view(MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype,
                       const char* representation) {
  (void)OpenFiles::process().publish();
  State fresh = state();
  const int mine = new_view(displacement, etype, filetype, representation, fresh);
  fresh.pointer = 0;
  std::array<std::int64_t, 2> all = {mine, used_shared_pointer_ ? 1 : 0};
  parts_.comm->all_reduce(std::span<std::int64_t>(all), ReduceOp::kMax);
  if (all[0] != MPI_SUCCESS) return mine != MPI_SUCCESS ? mine : static_cast<int>(all[0]);
  if (all[1] != 0 || is_sequential()) {
    const int code = reset_shared_pointer(fresh);
    if (code != MPI_SUCCESS) return code;
  }
  const std::lock_guard lock(mutex_);
  used_shared_pointer_ = false;
  std::swap(state_, fresh);
  return MPI_SUCCESS;
}

void OpenFile::get_view(MPI_Offset& displacement, MPI_Datatype& etype, MPI_Datatype& filetype,
                        std::string& representation) {
  const State state = this->state();
  displacement = static_cast<MPI_Offset>(state.view.displacement());
  etype = state.etype->for_program();
  filetype = state.filetype->for_program();
  representation = state.representation;
}

// --- pointers ------------------------------------------------------------------------------------

Result<std::int64_t> OpenFile::seek_from(MPI_Offset offset, int whence, std::int64_t current) {
  std::int64_t base = 0;
  if (whence == MPI_SEEK_CUR) {
    base = current;
  } else if (whence == MPI_SEEK_END) {
    const FileView view = state().view;
    SCR_ASSIGN_OR_RETURN(const std::uint64_t size, parts_.file->size());
    const std::uint64_t etype = std::max<std::uint64_t>(view.etype_size(), 1);
    base = static_cast<std::int64_t>((view.positions_within(size) + etype - 1) / etype);
  } else if (whence != MPI_SEEK_SET) {
    return invalid_argument(
        "cannot seek: neither from the start, nor from the pointer, nor from "
        "the end");
  }
  std::int64_t to = 0;
  if (__builtin_add_overflow(base, offset, &to) || to < 0)
    return invalid_argument(fmt::format("cannot seek to {} of {}", offset, base));
  return to;
}

int OpenFile::seek(MPI_Offset offset, int whence) {
  if (is_sequential()) return MPI_ERR_UNSUPPORTED_OPERATION;
  std::int64_t current = state().pointer;
  auto to = seek_from(offset, whence, current);
  if (!to.ok()) return error_class(to.status());
  const std::lock_guard lock(mutex_);
  state_.pointer = *to;
  return MPI_SUCCESS;
}

int OpenFile::seek_shared(MPI_Offset offset, int whence) {
  if (is_sequential()) return MPI_ERR_UNSUPPORTED_OPERATION;
  (void)OpenFiles::process().publish();
  std::array<std::int64_t, 4> all = {offset, -offset, whence, -whence};
  parts_.comm->all_reduce(std::span<std::int64_t>(all), ReduceOp::kMax);
  if (all[0] != -all[1] || all[2] != -all[3]) return MPI_ERR_NOT_SAME;
  int code = MPI_SUCCESS;
  if (parts_.comm->rank() == 0) {
    auto now = parts_.file->advance_pointer(0);
    auto to = now.ok() ? seek_from(offset, whence, static_cast<std::int64_t>(*now))
                       : Result<std::int64_t>(now.status());
    code = error_class(to.ok() ? parts_.file->set_pointer(static_cast<std::uint64_t>(*to))
                               : to.status());
  }
  parts_.comm->broadcast(std::as_writable_bytes(std::span(&code, 1)), 0);
  const std::lock_guard lock(mutex_);
  used_shared_pointer_ = true;
  return code;
}

int OpenFile::get_position(MPI_Offset& offset) {
  if (is_sequential()) return MPI_ERR_UNSUPPORTED_OPERATION;
  offset = state().pointer;
  return MPI_SUCCESS;
}

int OpenFile::get_position_shared(MPI_Offset& offset) {
  if (is_sequential()) return MPI_ERR_UNSUPPORTED_OPERATION;
  auto now = parts_.file->advance_pointer(0);
  if (!now.ok()) return report(now.status());
  offset = static_cast<MPI_Offset>(*now);
  return MPI_SUCCESS;
}

int OpenFile::get_byte_offset(MPI_Offset offset, MPI_Offset& byte) {
  if (is_sequential()) return MPI_ERR_UNSUPPORTED_OPERATION;
  if (offset < 0) return MPI_ERR_ARG;
  const FileView view = state().view;
  if (view.is_empty()) {
    byte = static_cast<MPI_Offset>(view.displacement());
    return MPI_SUCCESS;
  }
  std::uint64_t position = 0;
  if (__builtin_mul_overflow(static_cast<std::uint64_t>(offset), view.etype_size(), &position))
    return MPI_ERR_ARG;
  auto found = view.offset_of(position);
  if (!found.ok()) return error_class(found.status());
  byte = static_cast<MPI_Offset>(*found);
  return MPI_SUCCESS;
}

// -------------------------------------------------------------------------------------------------

int OpenFile::set_atomicity(bool atomic) {
  const int code =
      agree(OpenFiles::process().publish());  // nobody goes on before all have published
  const std::lock_guard lock(mutex_);
  state_.atomic = atomic;
  return code;
}

bool OpenFile::is_atomic() {
  const std::lock_guard lock(mutex_);
  return state_.atomic;
}

}  // namespace scr::mpiio
