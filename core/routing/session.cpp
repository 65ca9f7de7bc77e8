// The life of a session. The rest is in session_*.cpp, as session.hpp says.
#include "core/routing/session.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>

#include "core/base/job_cleaner.hpp"
#include "core/base/log.hpp"
#include "core/base/path.hpp"
#include "core/mpi/single_communicator.hpp"
#include "core/routing/file_hooks.hpp"

namespace scr::routing {

namespace {

// Rank and size that an MPI launcher gave this process, if one did.
struct Launched {
  std::string rank;
  bool several = false;
};

std::optional<Launched> launched_by_mpi() {
  static constexpr std::array<std::pair<const char*, const char*>, 4> kVariables = {{
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
      {"PMIX_RANK", "PMIX_SIZE"},
      {"PMI_RANK", "PMI_SIZE"},
      {"SLURM_PROCID", "SLURM_NTASKS"},
  }};
  for (const auto& [rank_name, size_name] : kVariables) {
    const char* rank = std::getenv(rank_name);
    const char* size = std::getenv(size_name);
    if (rank != nullptr) return Launched{rank, size != nullptr && std::string_view(size) != "1"};
  }
  return std::nullopt;
}

std::string configured_prefix(const config::Config& config) {
  return normalize(config.get_path("SCR_PREFIX"),
                   config::Environment::current().working_directory());
}

}  // namespace

thread_local int Session::sealing_depth = 0;
thread_local std::uint64_t Session::opens_ = 0;

Session& Session::process() {
  static Session* session = [] {
    auto* made = new Session(file_system());  // NOLINT: lives as long as the process
    if (!register_file_hooks()) made->names_are_not_watched();
    return made;
  }();
  return *session;
}

Session::Session(FileSystem& fs)
    : fs_(fs),
      pid_(getpid()),
      names_(fs, [this](const std::string& relative) { return has_note(relative); }),
      services_(fs) {}

Session::~Session() = default;

bool Session::passive() const { return off_ || getpid() != pid_; }

Status Session::configure(const std::vector<std::string>& calls) {
  if (passive()) return {};
  std::lock_guard lock(mutex_);
  if (calls == calls_) return {};
  if (runtime_) {
    return failed_precondition(
        "h5scr is at work already, with other settings: all files of a process must be opened with "
        "the same driver configuration, which an MPI program with libscr_mpiio takes at MPI_Init "
        "from HDF5_DRIVER_CONFIG (with HDF5_DRIVER=scr); set it there, or in the file that "
        "SCR_CONF_FILE names");
  }
  SCR_ASSIGN_OR_RETURN(config::Config config, read_config(calls));
  calls_ = calls;
  use(std::move(config));
  return {};
}

std::string Session::trace_file() {
  if (getpid() != pid_) return {};
  std::lock_guard lock(mutex_);
  const config::Config* settings = config();
  return settings != nullptr ? settings->get_string("SCR_VFD_TRACE") : std::string();
}

Result<config::Config> Session::read_config(const std::vector<std::string>& calls) const {
  SCR_ASSIGN_OR_RETURN(auto sources, config::read_files(fs_, config::Environment::current()));
  sources.calls = calls;
  sources.mode = config::Mode::kTransparent;
  return config::Config::build(std::move(sources));
}

void Session::use(config::Config config) {
  config_ = std::make_unique<config::Config>(std::move(config));
  names_.use(config_->routes(), config_->get_path("SCR_PREFIX"));
  off_ = !config_->get_bool("SCR_ENABLE");
  log::set_verbosity(static_cast<int>(config_->get_uint("SCR_DEBUG")));
}

// What holds for this process: that of the run, else what files and environment say.
const config::Config* Session::config() {
  if (runtime_) return &runtime_->context().config();
  if (config_) return config_.get();
  auto config = read_config(calls_);
  if (!config.ok()) {
    log::error("{}; files are opened as without h5scr", config.status().message());
    off_ = true;
    return nullptr;
  }
  use(std::move(*config));
  return config_.get();
}

MarkerStore& Session::markers() {
  if (!markers_) markers_ = std::make_unique<MarkerStore>(fs_, prefix());
  return *markers_;
}

bool Session::has_note(const std::string& relative) {
  const auto found = markers().find(relative);
  return found.ok() && *found;
}

std::string Session::host() const {
  return runtime_ ? runtime_->context().host() : log::host_name();
}

// --- start and end -------------------------------------------------------------------------------

bool Session::start_alone() {
  if (runtime_) return true;
  if (off_ || only_reads_ || config() == nullptr) return false;
  if (waits_) {
    needed_ = true;
    return false;
  }
  RunOptions options;
  options.calls = calls_;
  options.mode = config::Mode::kTransparent;
  options.alone = true;
  if (auto launched = launched_by_mpi(); launched && launched->several) {
    // The preload attaches us at MPI_Init; before, and in commands that a rank starts, nothing is
    // routed.
    if (mpi_layer_is_here()) return false;
    options.slot = "p" + launched->rank;
    if (launched->rank == "0") {
      report_.warn_once(
          "each process protects its own files only",
          "the program runs under MPI without libscr_mpiio (LD_PRELOAD), so files are lost "
          "with their node until they are flushed");
    }
  }
  auto runtime =
      Runtime::start(fs_, std::make_unique<SingleCommunicator>(), log::host_name(), options);
  if (!runtime.ok()) {
    log::warning("{}; files are opened as without h5scr", runtime.status().message());
    off_ = true;
    return false;
  }
  runtime_ = std::move(*runtime);
  names_.begin_run(config()->routes(), runtime_->context().job().prefix);
  adopt_restart();
  runtime_->resume_flushes();
  if (must_be_at_names()) runtime_->wait_for_flushes();
  note_flushed();
  return true;
}

void Session::attach(std::unique_ptr<Runtime> runtime, const std::vector<std::string>& calls) {
  std::lock_guard lock(mutex_);
  calls_ = calls;
  runtime_ = std::move(runtime);
  names_.begin_run(config()->routes(), runtime_->context().job().prefix);
  attached_ = true;
  const auto& rules = config()->routes();
  if (std::ranges::any_of(rules, [](const auto& rule) { return rule.complete_files > 0; }))
    close_point_ = runtime_->context().world().duplicate();
  services_.start(*runtime_);
  adopt_restart();
  runtime_->resume_flushes();
  note_flushed();
  open_window();
}

bool Session::open_window() {
  if (off_) return false;
  const bool is_left = !attached_ && window_is_outgrown_ && writers_.empty();
  if (is_left && !has_something_to_seal()) runtime_->close_window();
  if (runtime_->window() != 0) return true;
  window_is_outgrown_ = false;
  const Status status = runtime_->open_window();
  if (status.ok()) return true;
  report_.warn_once("files are opened as without h5scr", status.message());
  off_ = true;
  return false;
}

void Session::finish() {
  if (getpid() != pid_) return;  // the lock may be held by a thread that the child does not have
  std::lock_guard lock(mutex_);
  if (!runtime_) {
    report_unrouted();
    return;
  }
  const Sealing guard;
  // Processes of one node may have a file open together: who moves it has what all have written.
  if (attached_) runtime_->context().world().barrier();
  move_open_files();
  end_live();
  move_all_shared();
  Communicator& world = runtime_->context().world();
  if (world.any_true(has_something_to_seal()) && runtime_->window() != 0) seal();
  runtime_->close_window();
  (void)runtime_->finalize();
  note_flushed();
  report_.print(runtime_->context().world(), prefix());
  services_.end();
  attached_ ? detach() : leave_nothing();
}

void Session::detach() {
  off_ = true;
  attached_ = false;
  close_point_.reset();
  if (config_) {
    names_.end_run(config_->routes(), config_->get_path("SCR_PREFIX"));
  } else {
    names_.end_run({}, {});  // it is read before there is a name
  }
  runtime_.reset();
}

void Session::give_way() {
  if (getpid() != pid_) return;
  if (!step_aside()) finish();
  waits_ = false;
  disable();
}

// Collective if attached. False: there is something to end.
bool Session::step_aside() {
  std::lock_guard lock(mutex_);
  if (!runtime_) return true;
  if (!attached_) return false;
  const Sealing guard;
  const bool used = report_.has_routed() || has_something_to_seal() || has_open_writers();
  if (runtime_->context().world().any_true(used)) return false;
  runtime_->close_window();
  runtime_->withdraw();
  services_.end();
  detach();
  return true;
}

bool Session::has_files_elsewhere() const {
  const auto settings = read_config({});
  if (!settings.ok() || !settings->get_bool("SCR_ENABLE")) return false;
  const auto any = MarkerStore(fs_, configured_prefix(*settings)).any();
  return !any.ok() || *any;
}

// What the program has not closed comes to its name, as far as it could be written.
void Session::move_open_files() {
  const std::vector<RoutedFile*> writers = writers_;
  std::set<std::string> failed;  // of which there may be several in `writers`
  for (RoutedFile* file : writers) {
    const WindowFile* known = file_in_window(file->absolute_);
    if (known != nullptr && !known->failure.ok()) {
      drop_failed(file->absolute_);
      failed.insert(file->absolute_);
    }
    if (failed.contains(file->absolute_)) {
      file->cut_off_ = true;
      continue;
    }
    Status status = move_to_name(*file);
    if (status.ok()) continue;
    log::error("{}", status.message());
    // It is not closed, so it is no part of a complete dataset.
    if (file_in_window(file->absolute_) == nullptr) continue;
    window_is_incomplete_ = true;
    file->cut_off_ = true;
  }
}

// A process by itself will not come again in the same job: what has reached the prefix directory is
// not kept in the node's memory.
void Session::leave_nothing() {
  const Context& context = runtime_->context();
  CleanOptions options;
  options.user = context.job().user;
  options.job_id = context.job().job_id;
  options.host = context.host();
  options.now = std::time(nullptr);
  options.bases = {config()->get_path("SCR_CNTL_BASE")};
  for (const auto& store : config()->stores()) {
    if (store.directory != options.bases.front()) options.bases.push_back(store.directory);
  }
  // The configuration outlives the runtime that had it.
  config_ = std::make_unique<config::Config>(*config());
  names_.end_run(config_->routes(), config_->get_path("SCR_PREFIX"));
  runtime_.reset();
  for (const CleanedJob& job : clean_jobs(fs_, options).jobs) {
    if (job.state != CleanState::kRemoved) log::info("{}: {}", job.job_id, job.reason);
  }
}

// A process by itself that asked for h5scr and wrote files of which none was routed: the user may
// have got SCR_PREFIX or a rule wrong. Commands that a rank starts are silent.
void Session::report_unrouted() {
  const char* driver = std::getenv("HDF5_DRIVER");
  const auto launched = launched_by_mpi();
  const bool asked = driver != nullptr && std::string_view(driver) == "scr";
  if (off_ || only_reads_ || !asked || !config_ || (launched && launched->several)) return;
  SingleCommunicator alone;
  report_.print(alone, prefix());
}

}  // namespace scr::routing
