// The runtime of programs that do not call SCR_*: started and ended with MPI, told of the program's
// collective calls (docs/design.md, "Collective points").
#include "core/api/mpi_hooks.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <mutex>
#include <numeric>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "core/api/end_process.hpp"
#include "core/api/program_references.hpp"
#include "core/base/config_sources.hpp"
#include "core/base/log.hpp"
#include "core/mpi/mpi_communicator.hpp"
#include "core/mpiio/file_calls.hpp"
#include "core/mpiio/open_files.hpp"
#include "core/routing/file_hooks.hpp"
#include "core/routing/session.hpp"
#include "core/routing/shared_open.hpp"

namespace {

using scr::routing::Session;

// Collective calls between two looks while nothing happens: doubles up to this.
constexpr int kLongestPause = 256;

struct State {
  MPI_Comm program = MPI_COMM_WORLD;  // all ranks of this program
  bool served = false;                // files are routed, or may be later
  bool one_thread = true;             // MPI was told that one thread at a time calls it
  int pause = 1;                      // collective calls until the next look; the same on all ranks
  int since = 0;
};

State& state() {
  static State instance;
  return instance;
}

// Programs that may call MPI from several threads, and in fact do so from one, as those of mpi4py
// mostly are: they are treated like others until a second thread comes. It waits while the first
// one seals at the close of a file.
class Threads {
 public:
  // At every call that may be a collective point, but the close of a file.
  void note() {
    if (is_first() || several_.exchange(true)) return;
    const std::lock_guard lock(sealing_);
  }
  // Collective over `comm`: `seal` if there is one thread everywhere. Others than the first wait
  // for nothing here: who closes which file may differ from rank to rank.
  template <typename Seal>
  void seal_if_one(MPI_Comm comm, Seal seal) {
    std::unique_lock lock(sealing_, std::defer_lock);
    if (is_first()) {
      lock.lock();
    } else {
      several_ = true;
    }
    int several = several_ ? 1 : 0;
    PMPI_Allreduce(MPI_IN_PLACE, &several, 1, MPI_INT, MPI_MAX, comm);
    if (several == 0) seal();
  }

 private:
  bool is_first() {
    thread_local const char here = 0;
    const char* nobody = nullptr;
    return first_.compare_exchange_strong(nobody, &here) || nobody == &here;
  }

  std::atomic<const char*> first_ = nullptr;  // something of the first thread
  std::atomic<bool> several_ = false;
  std::mutex sealing_;
};

Threads& threads() {
  static Threads instance;
  return instance;
}

// Numbers that Open MPI gives every process of a launch, one for each of its programs.
std::vector<int> launch_numbers(const char* name) {
  const char* text = std::getenv(name);
  std::istringstream stream(text != nullptr ? text : "");
  return {std::istream_iterator<int>(stream), {}};
}

// A launch of several programs has one world. The first of them is served, always the same one, so
// that a restart finds what it wrote; the others get MPI_COMM_NULL. They need not all have the
// preload, so nothing here may wait for another program.
MPI_Comm program_communicator() {
  const std::vector<int> sizes = launch_numbers("OMPI_APP_CTX_NUM_PROCS");
  if (sizes.size() < 2) return MPI_COMM_WORLD;
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int triplet[3] = {0, sizes[0] - 1, 1};  // NOLINT: MPI's type
  if (rank > triplet[1]) {
    std::vector<int> ends(sizes.size());  // Open MPI numbers the ranks program by program
    std::partial_sum(sizes.begin(), sizes.end(), ends.begin());
    if (std::find(ends.begin(), ends.end(), rank) != ends.end()) {
      scr::log::warning(
          "of several programs in one launch only the first is served; this one's files are opened "
          "as without h5scr");
    }
    return MPI_COMM_NULL;
  }
  MPI_Group world = MPI_GROUP_NULL;
  MPI_Group group = MPI_GROUP_NULL;
  MPI_Comm program = MPI_COMM_NULL;
  PMPI_Comm_group(MPI_COMM_WORLD, &world);
  PMPI_Group_range_incl(world, 1, &triplet, &group);
  PMPI_Comm_create_group(MPI_COMM_WORLD, group, 0, &program);
  PMPI_Group_free(&group);
  PMPI_Group_free(&world);
  return program;
}

// The driver's configuration string counts from the start of the run, for when the first file is
// opened it is too late for it. Of several ranks' the first one's counts, as with SCR_Config.
std::vector<std::string> driver_settings() {
  const char* driver = std::getenv("HDF5_DRIVER");
  const char* text = std::getenv("HDF5_DRIVER_CONFIG");
  const bool used = (driver != nullptr && std::string_view(driver) == "scr") ||
                    scr::routing::legacy_layer_is_here();
  if (text == nullptr || !used) return {};
  return scr::config::split_settings(text);
}

// Collective over the program: starts the runtime for it.
int serve() {
  auto world = scr::MpiCommunicator::duplicate_of(state().program);
  const int rank = world->rank();
  const std::vector<std::string> calls = driver_settings();
  auto runtime = scr::Runtime::start(scr::file_system(), std::move(world), scr::log::host_name(),
                                     {.calls = calls, .mode = scr::config::Mode::kTransparent});
  if (!runtime.ok()) {
    if (rank == 0)
      scr::log::warning("{}; files are opened as without h5scr", runtime.status().message());
    Session::process().only_read();
    state().served = false;
    return -1;
  }
  Session::process().attach(std::move(*runtime), calls);
  return 0;
}

// Collective over the program. One that is linked with the native API will call SCR_Init, and is
// not to find that somebody has been at its cache with other settings than its own. But if it
// restarts from files that it wrote without SCR_Init, it must be served from the beginning.
bool waits_for_native_api() {
  int waits = scr::refers_to("SCR_Init") ? 1 : 0;
  int rank = 0;
  PMPI_Comm_rank(state().program, &rank);
  if (waits != 0 && rank == 0 && Session::process().has_files_elsewhere()) waits = 0;
  PMPI_Allreduce(MPI_IN_PLACE, &waits, 1, MPI_INT, MPI_MIN, state().program);
  return waits != 0;
}

int start() {
  try {
    state().program = program_communicator();
    if (state().program == MPI_COMM_NULL) {
      Session::process().only_read();
      return -1;
    }
    int level = MPI_THREAD_SINGLE;
    PMPI_Query_thread(&level);
    state().one_thread = level != MPI_THREAD_MULTIPLE;
    state().served = true;
    if (!waits_for_native_api()) return serve();
    Session::process().wait_for_need();
    return 0;
  } catch (const std::exception& error) {
    scr::log::error("{}", error.what());
    state().served = false;
    return -1;
  }
}

// Collective, while SCR_Init has not been called: whether some process has written a file that is
// to be protected.
bool is_needed(MPI_Comm comm) {
  int needed = Session::process().is_needed() ? 1 : 0;
  PMPI_Allreduce(MPI_IN_PLACE, &needed, 1, MPI_INT, MPI_MAX, comm);
  return needed != 0;
}

// Collective over the program, which is served from here on, although it is linked with the native
// API: that may be switched off in this run.
void serve_after_all() {
  int rank = 0;
  PMPI_Comm_rank(state().program, &rank);
  if (rank == 0) {
    scr::log::warning(
        "the program is linked with the native API, but writes files of HDF5 or MPI-IO without "
        "having called SCR_Init: they are protected from here on; files that are open already, or "
        "were written before, are not");
  }
  Session::process().wait_no_more();
  (void)serve();
}

// A halt condition holds: the run ends here, with everything flushed.
void exit_if_halted() {
  Session& session = Session::process();
  if (!session.must_exit()) return;
  scr::log::info("ending the run: a halt condition holds");
  session.finish();
  scr::end_process();
}

// The next look is after a pause that doubles while nothing happens.
void plan_next_look(bool busy) {
  state().pause = busy ? 1 : std::min(state().pause * 2, kLongestPause);
  state().since = 0;
}

int look_for_need(MPI_Comm comm) {
  try {
    const bool needed = is_needed(comm == MPI_COMM_WORLD ? state().program : comm);
    if (needed) serve_after_all();
    plan_next_look(needed);
  } catch (const std::exception& error) {
    scr::log::error("{}", error.what());
  }
  return MPI_SUCCESS;
}

// One small reduction; an exception of ours must not reach the program.
int look(MPI_Comm comm) {
  Session& session = Session::process();
  if (session.waits()) return look_for_need(comm);
  Session::Vote votes = session.vote();
  if (comm == MPI_COMM_WORLD) comm = state().program;
  const int result = PMPI_Allreduce(MPI_IN_PLACE, votes.data(), static_cast<int>(votes.size()),
                                    MPI_INT64_T, MPI_MAX, comm);
  if (result != MPI_SUCCESS) return result;
  try {
    plan_next_look(session.decide(votes));
  } catch (const std::exception& error) {
    scr::log::error("{}", error.what());
  }
  exit_if_halted();
  return MPI_SUCCESS;
}

// The rank in the program of each process of a communicator without a remote group, or
// MPI_UNDEFINED. Frees the program's group.
std::vector<int> ranks_in(MPI_Group program, MPI_Comm comm) {
  MPI_Group group = MPI_GROUP_NULL;
  int size = 0;
  PMPI_Comm_group(comm, &group);
  PMPI_Group_size(group, &size);
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::vector<int> found(ranks.size(), MPI_UNDEFINED);
  std::iota(ranks.begin(), ranks.end(), 0);
  PMPI_Group_translate_ranks(group, size, ranks.data(), program, found.data());
  PMPI_Group_free(&group);
  PMPI_Group_free(&program);
  return found;
}

// How many processes of a communicator without a remote group are not of the program.
int count_others(MPI_Comm comm) {
  MPI_Group program = MPI_GROUP_NULL;
  PMPI_Comm_group(state().program, &program);
  return static_cast<int>(std::ranges::count(ranks_in(program, comm), MPI_UNDEFINED));
}

// This process's program, served or not.
MPI_Group own_program() {
  MPI_Group world = MPI_GROUP_NULL;
  MPI_Group own = MPI_GROUP_NULL;
  PMPI_Comm_group(MPI_COMM_WORLD, &world);
  int rank = 0;
  int triplet[3] = {0, 0, 1};  // NOLINT: MPI's type
  PMPI_Group_rank(world, &rank);
  PMPI_Group_size(world, &triplet[1]);
  for (int end = 0; const int size : launch_numbers("OMPI_APP_CTX_NUM_PROCS")) {
    if (rank >= end && rank < end + size) {
      triplet[0] = end;
      triplet[1] = end + size;
    }
    end += size;
  }
  --triplet[1];
  PMPI_Group_range_incl(world, 1, &triplet, &own);
  PMPI_Group_free(&world);
  return own;
}

scr::mpiio::CollectivePoints::Kin kin(MPI_Comm comm) {
  int rank = 0;
  PMPI_Comm_rank(comm, &rank);
  const std::vector<int> found = ranks_in(own_program(), comm);
  const auto first =
      std::ranges::find_if_not(found, [](int place) { return place == MPI_UNDEFINED; });
  return {.all = std::ranges::count(found, MPI_UNDEFINED) == 0,
          .first = first - found.begin() == rank};
}

// Processes of other programs of the launch, or that were spawned, do not know of what we do.
bool serves(MPI_Comm comm) { return state().served && count_others(comm) == 0; }

// Remembered at the communicator, since this is asked at each of its collective calls.
bool has_same_group(MPI_Comm comm) {
  static const int key = [] {
    int made = MPI_KEYVAL_INVALID;
    PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &made, nullptr);
    return made;
  }();
  static const std::array<char, 2> answers{};
  void* known = nullptr;
  int is_known = 0;
  PMPI_Comm_get_attr(comm, key, &known, &is_known);
  if (is_known != 0) return known == &answers[1];
  const bool same = count_others(comm) == 0;
  PMPI_Comm_set_attr(comm, key, const_cast<char*>(&answers[same ? 1 : 0]));  // NOLINT
  return same;
}

bool has_all_ranks(MPI_Comm comm) {
  if (comm == state().program || comm == MPI_COMM_WORLD) return true;
  if (comm == MPI_COMM_NULL) return false;
  int inter = 0;
  PMPI_Comm_test_inter(comm, &inter);
  if (inter != 0) return false;
  int size = 0;
  int world = 0;
  PMPI_Comm_size(comm, &size);
  PMPI_Comm_size(state().program, &world);
  return size == world && has_same_group(comm);
}

bool is_at_work() {
  const Session& session = Session::process();
  return (session.attached() || session.waits()) && !Session::is_sealing();
}

// Where several threads call MPI, only calls on MPI_COMM_WORLD have an order that all ranks share.
int is_world(MPI_Comm comm) {
  if (!is_at_work()) return 0;
  if (!state().one_thread) threads().note();
  if (comm == state().program || comm == MPI_COMM_WORLD) return 1;
  return state().one_thread && has_all_ranks(comm) ? 1 : 0;
}

// No rank leaves the reduction before all have come, so it is a barrier, too, unless the world has
// other programs.
int barrier(MPI_Comm comm) {
  const int result = look(comm);
  const bool others = comm == MPI_COMM_WORLD && state().program != MPI_COMM_WORLD;
  return result == MPI_SUCCESS && others ? PMPI_Barrier(comm) : result;
}

void collective(MPI_Comm comm) {
  if (++state().since >= state().pause) (void)look(comm);
}

void publish() {
  try {
    // A failure has been logged, and fails the close of the file.
    (void)scr::mpiio::OpenFiles::process().publish();
  } catch (const std::exception& error) {
    scr::log::error("{}", error.what());
  }
}

// Files have a communicator of their own, so only a program with one thread closes them in an order
// that all ranks share.
bool close_seals(MPI_Comm comm) { return is_at_work() && has_all_ranks(comm); }
void closed(MPI_Comm file) {
  if (state().one_thread) {
    (void)look(state().program);
  } else {
    threads().seal_if_one(file, [&] { (void)look(file); });
  }
}

// A file of MPI-IO is about to be opened by all of `comm`. Where that is all of the program it can
// be protected itself, else the next collective point is for those that follow.
void opens(MPI_Comm comm, const scr::routing::SharedOpen& how) {
  Session& session = Session::process();
  if (!session.waits()) return;
  session.note_need(how);
  if (state().one_thread && has_all_ranks(comm) && is_needed(comm)) serve_after_all();
}

void (*end_of_mpi)() = nullptr;

int self_is_freed(MPI_Comm /*comm*/, int /*key*/, void* /*value*/, void* /*state*/) {
  if (end_of_mpi != nullptr) std::exchange(end_of_mpi, nullptr)();
  return MPI_SUCCESS;
}

// MPI_Finalize frees MPI_COMM_SELF before anything else, and with it what is attached to it, the
// last that came first; everything of MPI works until then.
int at_end(void (*end)()) {
  int key = MPI_KEYVAL_INVALID;
  const auto copy_nothing = [](MPI_Comm, int, void*, void*, void*, int* flag) {
    *flag = 0;
    return MPI_SUCCESS;
  };
  if (PMPI_Comm_create_keyval(copy_nothing, self_is_freed, &key, nullptr) != MPI_SUCCESS) return -1;
  const int set = PMPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr);
  PMPI_Comm_free_keyval(&key);
  if (set != MPI_SUCCESS) return -1;
  end_of_mpi = end;
  return 0;
}

// A program without a collective call after its files were written.
void report_need() {
  int rank = 0;
  PMPI_Comm_rank(state().program, &rank);
  if (is_needed(state().program) && rank == 0) {
    scr::log::warning(
        "the program is linked with the native API and did not call SCR_Init: its files of HDF5 or "
        "MPI-IO were written as without h5scr");
  }
  Session::process().wait_no_more();
}

void finish() {
  publish();
  if (Session::process().waits()) report_need();
  try {
    Session::process().finish();
  } catch (const std::exception& error) {
    scr::log::error("{}", error.what());
  }
}

}  // namespace

const scr_mpi_hooks* scr_get_mpi_hooks(int version) {
  static const scr_mpi_hooks hooks = {
      .version = SCR_MPI_HOOKS_VERSION,
      .start = start,
      .barrier = barrier,
      .collective = collective,
      .is_world = is_world,
      .at_end = at_end,
      .finish = finish,
      .unpublished =
          reinterpret_cast<const unsigned long*>(&scr::mpiio::OpenFiles::process().unpublished()),
      .publish = publish,
      .files = &scr::mpiio::file_calls(
          {.serves = serves, .kin = kin, .opens = opens, .seals = close_seals, .reached = closed})};
  return version == SCR_MPI_HOOKS_VERSION ? &hooks : nullptr;
}
