#include "core/mpiio/file_calls.hpp"

#include <cstring>
#include <exception>
#include <limits>

#include "core/base/log.hpp"
#include "core/mpiio/errors.hpp"
#include "core/mpiio/open_files.hpp"
#include "core/routing/session.hpp"
#include "core/routing/shared_open.hpp"

namespace scr::mpiio {
namespace {

CollectivePoints collective_points;

OpenFile& file_of(scr_open_file* file) { return *reinterpret_cast<OpenFile*>(file); }

// No exception reaches the program, which may be C.
template <typename Body>
int guarded(MPI_File handle, Body body) {
  int code = MPI_ERR_OTHER;
  try {
    code = body();
  } catch (const std::bad_alloc&) {
    code = MPI_ERR_NO_MEM;
  } catch (const std::exception& error) {
    log::error("{}", error.what());
  }
  return raise(handle, code);
}

// --- opening -------------------------------------------------------------------------------------

// What MPI refuses, it shall refuse in its own words.
bool is_valid(MPI_Comm comm, const char* name, int amode) {
  if (comm == MPI_COMM_NULL || name == nullptr) return false;
  int inter = 0;
  if (PMPI_Comm_test_inter(comm, &inter) != MPI_SUCCESS || inter != 0) return false;
  const int access = amode & (MPI_MODE_RDONLY | MPI_MODE_WRONLY | MPI_MODE_RDWR);
  if (access != MPI_MODE_RDONLY && access != MPI_MODE_WRONLY && access != MPI_MODE_RDWR)
    return false;
  if (access == MPI_MODE_RDONLY && (amode & (MPI_MODE_CREATE | MPI_MODE_EXCL)) != 0) return false;
  return access != MPI_MODE_RDWR || (amode & MPI_MODE_SEQUENTIAL) == 0;
}

// ROMIO takes names with the kind of file system before.
std::string_view without_kind(std::string_view name) {
  for (const std::string_view kind :
       {"ufs:", "nfs:", "xfs:", "lustre:", "gpfs:", "panfs:", "pvfs2:", "testfs:"}) {
    if (name.starts_with(kind)) return name.substr(kind.size());
  }
  return name;
}

routing::SharedOpen how_to_open(const char* name, int amode, Hints hints) {
  return {.name = std::string(without_kind(name)),
          .read = (amode & MPI_MODE_WRONLY) == 0,
          .write = (amode & MPI_MODE_RDONLY) == 0,
          .create = (amode & MPI_MODE_CREATE) != 0,
          .exclusive = (amode & MPI_MODE_EXCL) != 0,
          .delete_on_close = (amode & MPI_MODE_DELETE_ON_CLOSE) != 0,
          .hints = std::move(hints)};
}

// A program that looks whether a file is there need not make noise.
int report_unless_usual(const Status& status, int code) {
  if (code != MPI_ERR_NO_SUCH_FILE && code != MPI_ERR_FILE_EXISTS) (void)report(status);
  return code;
}

// The same on all processes, of which perhaps only one has seen the cause.
int report_failed_open(Communicator& comm, const Status& status) {
  constexpr auto kUnknown = std::numeric_limits<std::int64_t>::max();
  const int code = error_class(status);
  const bool saw_cause = status.errno_value() != 0;
  const auto found = comm.all_reduce(saw_cause ? code : kUnknown, ReduceOp::kMin);
  return report_unless_usual(status, found != kUnknown ? static_cast<int>(found) : code);
}

// Gives MPI_SUCCESS and no handle if the file is not ours.
int open_ours(MPI_Comm comm, const char* name, int amode, MPI_Info info, MPI_File& handle) {
  std::shared_ptr<MpiCommunicator> copy = MpiCommunicator::duplicate_of(comm);
  Hints hints = collect_hints(*copy, info);
  const routing::SharedOpen how = how_to_open(name, amode, std::move(hints));
  collective_points.opens(comm, how);
  auto opened = routing::open_shared(copy, how);
  if (!opened.ok()) return report_failed_open(*copy, opened.status());
  if (*opened == nullptr) return MPI_SUCCESS;
  auto file = std::make_shared<OpenFile>(OpenFile::Parts{.file = *std::move(opened),
                                                         .comm = std::move(copy),
                                                         .amode = amode,
                                                         .hints = routing::hints_in_force(how),
                                                         .seals = collective_points.seals(comm),
                                                         .is_strict = how.is_strict()});
  if (file->is_first()) warn_if_not_in_force(how.hints, file->hints());
  if (const int code = file->start(info); code != MPI_SUCCESS) return code;
  log::detail("MPI-IO: '{}' is a file of h5scr, opened by {} processes", name, file->processes());
  handle = file->handle();
  OpenFiles::process().add(std::move(file));
  return MPI_SUCCESS;
}

// Collective over a communicator of one program that is not served: MPI_ERR_IO on all processes if
// there is a marker at the name. One looks: a flush may take it away between two looks.
int refuse_marker(MPI_Comm comm, const char* name) {
  int rank = 0;
  PMPI_Comm_rank(comm, &rank);
  int code = MPI_SUCCESS;
  if (rank == 0) {
    const Status seen = routing::refuse_marker(file_system(), std::string(without_kind(name)));
    if (!seen.ok()) {
      (void)report(seen);
      code = MPI_ERR_IO;
    }
  }
  PMPI_Bcast(&code, 1, MPI_INT, 0, comm);
  return code;
}

// The same where others may not have this layer, and would not come to a reduction of ours: who
// sees a marker opens, with the others, a name that cannot be opened, and MPI tells them.
int refuse_marker_to_others(MPI_Comm comm, const char* name, int amode, MPI_Info info,
                            bool speaks) {
  const Status mine = routing::refuse_marker(file_system(), std::string(without_kind(name)));
  if (mine.ok()) return MPI_SUCCESS;
  if (speaks) (void)report(mine);
  MPI_File file = MPI_FILE_NULL;
  const std::string below = std::string(name) + "/";
  if (PMPI_File_open(comm, below.c_str(), amode, info, &file) == MPI_SUCCESS)
    PMPI_File_close(&file);
  return MPI_ERR_IO;
}

int open_or_refuse(MPI_Comm comm, const char* name, int amode, MPI_Info info, MPI_File& handle) {
  if (collective_points.serves(comm)) return open_ours(comm, name, amode, info, handle);
  const CollectivePoints::Kin kin = collective_points.kin(comm);
  return kin.all ? refuse_marker(comm, name)
                 : refuse_marker_to_others(comm, name, amode, info, kin.first);
}

int open(MPI_Comm comm, const char* name, int amode, MPI_Info info, MPI_File* handle) {
  MPI_File ours = MPI_FILE_NULL;
  if (handle != nullptr && is_valid(comm, name, amode)) {
    const int code =
        guarded(MPI_FILE_NULL, [&] { return open_or_refuse(comm, name, amode, info, ours); });
    if (code != MPI_SUCCESS) {
      *handle = MPI_FILE_NULL;
      return code;
    }
  }
  if (ours == MPI_FILE_NULL) return PMPI_File_open(comm, name, amode, info, handle);
  *handle = ours;
  return MPI_SUCCESS;
}

int remove(const char* name, MPI_Info info) {
  bool done = false;
  const int code = guarded(MPI_FILE_NULL, [&] {
    if (name == nullptr) return MPI_SUCCESS;
    auto unlinked = routing::Session::process().unlinked(without_kind(name));
    done = unlinked.ok() && *unlinked;
    return report_unless_usual(unlinked.status(), error_class(unlinked.status()));
  });
  return done || code != MPI_SUCCESS ? code : PMPI_File_delete(name, info);
}

int close(scr_open_file* file, MPI_File* handle) {
  auto& files = OpenFiles::process();
  std::shared_ptr<MpiCommunicator> sealers;
  const int code = guarded(*handle, [&] {
    (void)files.publish();
    const std::shared_ptr<OpenFile> ours = files.remove(file_of(file));
    if (ours->seals()) sealers = ours->processes_of_file();
    return ours->close();
  });
  const int closed = PMPI_File_close(handle);
  if (sealers) collective_points.reached(sealers->native());
  return code != MPI_SUCCESS ? code : closed;
}

// --- reading and writing -------------------------------------------------------------------------

// In bytes: MPI counts elements of any type from them.
void set_status(MPI_Status* status, std::uint64_t bytes) {
  if (status == MPI_STATUS_IGNORE) return;
  PMPI_Status_set_elements_x(status, MPI_BYTE, static_cast<MPI_Count>(bytes));
  PMPI_Status_set_cancelled(status, 0);
}

int access(scr_open_file* file, int way, MPI_Offset offset, void* buffer, MPI_Count count,
           MPI_Datatype type, MPI_Status* status) {
  std::uint64_t moved = 0;
  const int code = guarded(file_of(file).handle(), [&] {
    return file_of(file).transfer({way, offset, buffer, count, type}, moved);
  });
  set_status(status, moved);
  return code;
}

int query(void* moved, MPI_Status* status) {
  set_status(status, *static_cast<std::uint64_t*>(moved));
  return MPI_SUCCESS;
}

int forget(void* moved) {
  delete static_cast<std::uint64_t*>(moved);
  return MPI_SUCCESS;
}

int cancel(void*, int) { return MPI_SUCCESS; }

// The work is done at once; the request only tells of it.
int start(scr_open_file* file, int way, MPI_Offset offset, void* buffer, MPI_Count count,
          MPI_Datatype type, MPI_Request* request) {
  return guarded(file_of(file).handle(), [&] {
    auto moved = std::make_unique<std::uint64_t>(0);
    int code = file_of(file).transfer({way, offset, buffer, count, type}, *moved);
    if (code != MPI_SUCCESS) {
      *request = MPI_REQUEST_NULL;
      return code;
    }
    code = PMPI_Grequest_start(query, forget, cancel, moved.get(), request);
    if (code != MPI_SUCCESS) return code;
    (void)moved.release();
    return PMPI_Grequest_complete(*request);
  });
}

int begin(scr_open_file* file, int way, MPI_Offset offset, void* buffer, MPI_Count count,
          MPI_Datatype type) {
  return guarded(file_of(file).handle(), [&] {
    return file_of(file).begin({way, offset, buffer, count, type});
  });
}

int end(scr_open_file* file, int way, MPI_Status* status) {
  std::uint64_t moved = 0;
  const int code = guarded(file_of(file).handle(), [&] { return file_of(file).end(way, moved); });
  if (code == MPI_SUCCESS) set_status(status, moved);
  return code;
}

// --- the rest ------------------------------------------------------------------------------------

// A function of the table that is a member function of OpenFile.
template <auto member, typename... Arguments>
int call(scr_open_file* file, Arguments... arguments) {
  return guarded(file_of(file).handle(), [&] { return (file_of(file).*member)(arguments...); });
}

// The same with a result behind a pointer.
template <auto member>
int get(scr_open_file* file, MPI_Offset* result) {
  return guarded(file_of(file).handle(), [&] { return (file_of(file).*member)(*result); });
}

int get_byte_offset(scr_open_file* file, MPI_Offset offset, MPI_Offset* result) {
  return guarded(file_of(file).handle(),
                 [&] { return file_of(file).get_byte_offset(offset, *result); });
}

int get_group(scr_open_file* file, MPI_Group* group) {
  return guarded(file_of(file).handle(), [&] { return file_of(file).get_group(*group); });
}

int get_amode(scr_open_file* file, int* amode) {
  *amode = file_of(file).amode();
  return MPI_SUCCESS;
}

// Our own hints hold from open to close.
void warn_of_hints(const OpenFile& file, MPI_Info info) {
  for (const auto& [key, value] : hints_of(info)) {
    const auto now = file.hints().find(key);
    if (now == file.hints().end() || now->second != value)
      log::warning("hint '{}' has no effect on a file that is open already", key);
  }
}

int set_info(scr_open_file* file, MPI_Info info) {
  return guarded(file_of(file).handle(), [&] {
    if (file_of(file).is_first()) warn_of_hints(file_of(file), info);
    return PMPI_File_set_info(file_of(file).handle(), info);
  });
}
int get_info(scr_open_file* file, MPI_Info* info) {
  return guarded(file_of(file).handle(), [&] {
    const int code = PMPI_File_get_info(file_of(file).handle(), info);
    if (code != MPI_SUCCESS) return code;
    for (const auto& [key, value] : file_of(file).hints()) {
      PMPI_Info_set(*info, key.c_str(), value.c_str());
    }
    return MPI_SUCCESS;
  });
}

int set_view(scr_open_file* file, MPI_Offset displacement, MPI_Datatype etype,
             MPI_Datatype filetype, const char* representation, MPI_Info /*info*/) {
  return guarded(file_of(file).handle(), [&] {
    return file_of(file).set_view(displacement, etype, filetype, representation);
  });
}

int get_view(scr_open_file* file, MPI_Offset* displacement, MPI_Datatype* etype,
             MPI_Datatype* filetype, char* representation) {
  return guarded(file_of(file).handle(), [&] {
    std::string text;
    file_of(file).get_view(*displacement, *etype, *filetype, text);
    std::memcpy(representation, text.c_str(), text.size() + 1);
    return MPI_SUCCESS;
  });
}

int set_atomicity(scr_open_file* file, int atomic) {
  return guarded(file_of(file).handle(), [&] { return file_of(file).set_atomicity(atomic != 0); });
}

int get_atomicity(scr_open_file* file, int* atomic) {
  *atomic = file_of(file).is_atomic() ? 1 : 0;
  return MPI_SUCCESS;
}

scr_open_file* find(MPI_File handle) {
  return reinterpret_cast<scr_open_file*>(OpenFiles::process().find(handle));
}

static_assert(sizeof(std::atomic<int>) == sizeof(int));

}  // namespace

const scr_file_calls& file_calls(const CollectivePoints& points) {
  collective_points = points;
  static const scr_file_calls calls = {
      .open_files = reinterpret_cast<const int*>(&OpenFiles::process().count()),
      .find = find,
      .open = open,
      .remove = remove,
      .close = close,
      .access = access,
      .start = start,
      .begin = begin,
      .end = end,
      .get_size = get<&OpenFile::get_size>,
      .set_size = call<&OpenFile::set_size, MPI_Offset>,
      .preallocate = call<&OpenFile::preallocate, MPI_Offset>,
      .sync = call<&OpenFile::sync>,
      .get_group = get_group,
      .get_amode = get_amode,
      .set_info = set_info,
      .get_info = get_info,
      .set_view = set_view,
      .get_view = get_view,
      .seek = call<&OpenFile::seek, MPI_Offset, int>,
      .seek_shared = call<&OpenFile::seek_shared, MPI_Offset, int>,
      .get_position = get<&OpenFile::get_position>,
      .get_position_shared = get<&OpenFile::get_position_shared>,
      .get_byte_offset = get_byte_offset,
      .set_atomicity = set_atomicity,
      .get_atomicity = get_atomicity,
  };
  return calls;
}

}  // namespace scr::mpiio
