// The C edge of the native API: checks arguments, calls the runtime, turns a Status into a code.
#include <algorithm>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>

#include "core/api/end_process.hpp"
#include "core/base/log.hpp"
#include "core/mpi/mpi_communicator.hpp"
#include "core/mpi/single_communicator.hpp"
#include "core/routing/session.hpp"
#include "core/runtime/runtime.hpp"
#include "core/scr.h"
#include "h5scr/version.hpp"

namespace {

using scr::Runtime;
using scr::Status;
using scr::config::Config;

// All that outlives a call. One per process.
struct Global {
  std::unique_ptr<Runtime> runtime;
  std::vector<std::string> config_calls;  // arguments of SCR_Config that set something
  std::unique_ptr<Config> config;         // to answer SCR_Config before SCR_Init
  std::string config_answer;
};

Global& global() {
  static Global instance;
  return instance;
}

int code(const Status& status) { return status.ok() ? SCR_SUCCESS : SCR_FAILURE; }

int refuse(const char* function, std::string_view why) {
  scr::log::error("{}: {}", function, why);
  return SCR_FAILURE;
}

// Runs `body`; no exception crosses the C edge.
template <typename Body>
int guarded(const char* function, Body body) {
  try {
    return body();
  } catch (const std::exception& error) {
    return refuse(function, error.what());
  }
}

template <typename Body>
int with_runtime(const char* function, Body body) {
  Runtime* runtime = global().runtime.get();
  if (runtime == nullptr) return refuse(function, "SCR_Init was not called, or did not succeed");
  return guarded(function, [&] { return body(*runtime); });
}

// Asks a yes-or-no question of all ranks, also if the pointer of this one is bad: nobody waits for
// it.
template <typename Question>
int ask(const char* function, int* flag, Question question) {
  if (flag != nullptr) *flag = 0;
  return with_runtime(function, [&](Runtime& r) {
    scr::Result<bool> answer = std::invoke(question, r);
    if (flag == nullptr) return refuse(function, "flag is NULL");
    if (answer.ok()) *flag = *answer ? 1 : 0;
    return code(answer.status());
  });
}

// Ends a run that a halt condition stops (SCR_HALT_EXIT=1). Does not return then.
void exit_if_halted() {
  Runtime* runtime = global().runtime.get();
  if (runtime == nullptr || !runtime->must_exit()) return;
  if (runtime->context().rank() == 0) scr::log::warning("ending the run: a halt condition holds");
  (void)runtime->finalize();
  global().runtime.reset();
  scr::end_process();
}

Status check_name(const char* name) {
  if (name == nullptr) return scr::invalid_argument("the name of a dataset is NULL");
  if (*name == '\0') return scr::invalid_argument("the name of a dataset is empty");
  if (std::strlen(name) >= SCR_MAX_FILENAME) {
    return scr::invalid_argument("the name of a dataset is longer than SCR_MAX_FILENAME");
  }
  return {};
}

// To a buffer of SCR_MAX_FILENAME bytes. Paths fit, as they were checked; names of datasets that a
// program without SCR_* wrote may be longer, and are cut.
void copy_text(char* destination, const std::string& text) {
  const std::size_t length = std::min(text.size(), std::size_t{SCR_MAX_FILENAME - 1});
  std::memcpy(destination, text.data(), length);
  destination[length] = '\0';
}

int start_output(const char* function, const std::optional<std::string>& name, int flags,
                 const Status& arguments) {
  return with_runtime(function,
                      [&](Runtime& r) { return code(r.start_dataset(name, flags, arguments)); });
}

int complete_output(const char* function, int valid) {
  const int result =
      with_runtime(function, [&](Runtime& r) { return code(r.complete_dataset(valid != 0)); });
  exit_if_halted();
  return result;
}

// Collective even if the name of one rank is bad, so that nobody waits for it.
int by_name(const char* function, const char* name, Status (Runtime::*action)(const std::string&)) {
  return with_runtime(function, [&](Runtime& r) {
    r.context().meet(function);
    const Status arguments = scr::agree(r.context().world(), check_name(name), function);
    return arguments.ok() ? code((r.*action)(name)) : SCR_FAILURE;
  });
}

std::unique_ptr<scr::Communicator> world_communicator() {
  int initialized = 0;
  PMPI_Initialized(&initialized);
  if (initialized == 0) return std::make_unique<scr::SingleCommunicator>();
  return scr::MpiCommunicator::duplicate_of(MPI_COMM_WORLD);
}

// The configuration as it is before SCR_Init: files are read once, by rank 0.
Status load_config() {
  if (global().config) return {};
  auto world = world_communicator();
  const auto environment = scr::config::Environment::current();
  scr::Hash message;
  Status status;
  if (world->rank() == 0) {
    auto sources = scr::config::read_files(scr::file_system(), environment);
    if (sources.ok()) message = sources->to_hash();
    status = sources.status();
  }
  SCR_RETURN_IF_ERROR(scr::agree(*world, status, "SCR_Config"));
  SCR_RETURN_IF_ERROR(scr::broadcast_hash(*world, message, 0));
  SCR_ASSIGN_OR_RETURN(auto sources, scr::config::ConfigSources::from_hash(message, environment));
  SCR_ASSIGN_OR_RETURN(auto config, Config::resolve(std::move(sources)));
  global().config = std::make_unique<Config>(std::move(config));
  return {};
}

const char* configure(const char* text) {
  if (text == nullptr) {
    refuse("SCR_Config", "the argument is NULL");
    return nullptr;
  }
  if (global().runtime) {
    refuse("SCR_Config", "must be called before SCR_Init");
    return nullptr;
  }
  Status status = load_config();
  if (!status.ok()) {
    refuse("SCR_Config", status.message());
    return nullptr;
  }
  auto answer = global().config->call(text);
  if (!answer.ok()) {
    refuse("SCR_Config", answer.status().message());
    return nullptr;
  }
  if (!*answer) {
    global().config_calls.emplace_back(text);
    return nullptr;
  }
  global().config_answer = **answer;
  return global().config_answer.c_str();
}

}  // namespace

extern "C" {

const char* SCR_Get_version(void) { return "v" H5SCR_VERSION; }

const char* SCR_Config(const char* config) {
  const char* answer = nullptr;
  guarded("SCR_Config", [&] {
    answer = configure(config);
    return SCR_SUCCESS;
  });
  return answer;
}

const char* SCR_Configf(const char* format, ...) {
  if (format == nullptr) return SCR_Config(nullptr);
  va_list args;
  va_start(args, format);
  char* text = nullptr;
  const int length = vasprintf(&text, format, args);
  va_end(args);
  if (length < 0) return nullptr;
  const char* answer = SCR_Config(text);
  free(text);  // NOLINT: vasprintf allocates with malloc
  return answer;
}

int SCR_Init(void) {
  if (global().runtime) return refuse("SCR_Init", "called twice");
  int initialized = 0;
  PMPI_Initialized(&initialized);
  if (initialized == 0) return refuse("SCR_Init", "must be called after MPI_Init");
  scr::routing::Session::process().give_way();
  const int result = guarded("SCR_Init", [] {
    auto runtime = Runtime::start(scr::file_system(), world_communicator(), scr::log::host_name(),
                                  {.calls = global().config_calls});
    if (!runtime.ok()) return refuse("SCR_Init", runtime.status().message());
    global().runtime = std::move(*runtime);
    return SCR_SUCCESS;
  });
  exit_if_halted();
  return result;
}

int SCR_Finalize(void) {
  return with_runtime("SCR_Finalize", [](Runtime& r) {
    const int result = code(r.finalize());
    global().runtime.reset();
    global().config.reset();
    global().config_calls.clear();
    return result;
  });
}

int SCR_Should_exit(int* flag) { return ask("SCR_Should_exit", flag, &Runtime::should_exit); }

int SCR_Route_file(const char* name, char* file) {
  if (name == nullptr || file == nullptr) {
    return refuse("SCR_Route_file",
                  name == nullptr ? "the name is NULL" : "the buffer for the path is NULL");
  }
  if (*name == '\0') return refuse("SCR_Route_file", "the name is empty");
  if (std::strlen(name) >= SCR_MAX_FILENAME) {
    return refuse("SCR_Route_file", "the name is longer than SCR_MAX_FILENAME");
  }
  // A program that goes on after an error works on its own file, as it would without us.
  copy_text(file, name);
  return with_runtime("SCR_Route_file", [&](Runtime& r) {
    auto path = r.route_file(name);
    if (path.ok()) copy_text(file, *path);
    return code(path.status());
  });
}

int SCR_Have_restart(int* flag, char* name) {
  std::optional<std::string> found;
  const auto question = [&](Runtime& r) -> scr::Result<bool> {
    SCR_ASSIGN_OR_RETURN(found, r.have_restart());
    return found.has_value();
  };
  const int result = ask("SCR_Have_restart", flag, question);
  if (result == SCR_SUCCESS && found && name != nullptr) copy_text(name, *found);
  return result;
}

int SCR_Start_restart(char* name) {
  return with_runtime("SCR_Start_restart", [&](Runtime& r) {
    auto started = r.start_restart();
    if (started.ok() && name != nullptr) copy_text(name, *started);
    return code(started.status());
  });
}

int SCR_Complete_restart(int valid) {
  return with_runtime("SCR_Complete_restart",
                      [&](Runtime& r) { return code(r.complete_restart(valid != 0)); });
}

int SCR_Need_checkpoint(int* flag) {
  return ask("SCR_Need_checkpoint", flag, &Runtime::need_checkpoint);
}

int SCR_Start_checkpoint(void) {
  return start_output("SCR_Start_checkpoint", std::nullopt, SCR_FLAG_CHECKPOINT, {});
}

int SCR_Complete_checkpoint(int valid) { return complete_output("SCR_Complete_checkpoint", valid); }

int SCR_Start_output(const char* name, int flags) {
  Status arguments = check_name(name);
  if ((flags & ~(SCR_FLAG_CHECKPOINT | SCR_FLAG_OUTPUT)) != 0) {
    arguments = scr::invalid_argument("SCR_Start_output: unknown flags");
  }
  return start_output("SCR_Start_output", name ? std::optional<std::string>(name) : std::nullopt,
                      flags, arguments);
}

int SCR_Complete_output(int valid) { return complete_output("SCR_Complete_output", valid); }

int SCR_Flush_progress(const char* name, unsigned long long* done, unsigned long long* total) {
  if (name == nullptr || done == nullptr || total == nullptr)
    return refuse("SCR_Flush_progress", "an argument is NULL");
  return with_runtime("SCR_Flush_progress", [&](Runtime& r) {
    auto progress = r.flush_progress(name);
    if (!progress.ok()) return refuse("SCR_Flush_progress", progress.status().message());
    *done = progress->first;
    *total = progress->second;
    return SCR_SUCCESS;
  });
}

int SCR_Flush_wait(const char* name) {
  return with_runtime("SCR_Flush_wait",
                      [&](Runtime& r) { return code(r.flush_wait(name ? name : "")); });
}

int SCR_Current(const char* name) { return by_name("SCR_Current", name, &Runtime::set_current); }
int SCR_Drop(const char* name) { return by_name("SCR_Drop", name, &Runtime::drop); }
int SCR_Delete(const char* name) { return by_name("SCR_Delete", name, &Runtime::remove); }

}  // extern "C"
