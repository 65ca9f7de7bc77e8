#include "core/job/runtime_check.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/base/text.hpp"
#include "core/job/batch_system.hpp"
#include "core/job/down_nodes.hpp"
#include "core/job/installation.hpp"
#include "core/job/process.hpp"

namespace scr::job {
namespace {

using State = Finding::State;

// Name and path of each library that the dynamic linker gives a file; nothing if it is no dynamic
// executable or library.
std::optional<std::map<std::string, std::string>> libraries_of(const std::string& path) {
  const ProcessResult told = run_program({"ldd", path}, {.timeout = std::chrono::seconds(30)});
  if (!told.ok()) return std::nullopt;
  std::map<std::string, std::string> libraries;
  for (std::string_view line : text::split(told.output, '\n')) {
    line = text::trim(line);
    const std::size_t arrow = line.find(" => ");
    if (arrow == std::string_view::npos) continue;
    std::string_view target = line.substr(arrow + 4);
    target = target.substr(0, target.find(" ("));
    libraries.emplace(line.substr(0, arrow), target);
  }
  return libraries;
}

bool is_hdf5(std::string_view name) {
  if (!name.starts_with("libhdf5")) return false;
  for (std::string_view other : {"_hl", "_cpp", "_fortran", "_f90"}) {
    if (name.find(other) != std::string_view::npos) return false;
  }
  return true;
}

// "1.14" of "1.14.5": drivers may differ from one series to the next.
std::string series_of(std::string_view version) {
  const auto pieces = text::split(version, '.');
  return pieces.size() < 2 ? std::string(version) : fmt::format("{}.{}", pieces[0], pieces[1]);
}

#ifdef H5SCR_HDF5_VERSION
constexpr std::string_view kOurHdf5 = H5SCR_HDF5_VERSION;
#else
constexpr std::string_view kOurHdf5;
#endif

bool is_mpi(std::string_view name) {
  return name.starts_with("libmpi.so") || name.starts_with("libmpich.so");
}

struct Handle {
  explicit Handle(const std::string& path)
      : library(::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (library == nullptr) error = ::dlerror();
  }
  void* library;  // never closed: plug-ins are not made for it
  std::string error;
};

class Check {
 public:
  Check(const JobSettings& job, RuntimeReport& report) : job_(job), report_(report) {}

  void add(std::string subject, State state, std::string text) {
    report_.findings.push_back({std::move(subject), state, std::move(text)});
  }

  void plugin() {
    const Installation& parts = find_installation();
    if (parts.plugins.empty()) {
      add("plug-in", State::kNote, "h5scr was built without the HDF5 driver");
      return;
    }
    const Handle plugin(parts.plugin());
    if (plugin.library == nullptr) {
      add("plug-in", State::kFailed, "it does not load: " + plugin.error);
      return;
    }
    constexpr int kDriver = 2;  // H5PL_TYPE_VFD
    using TypeFunction = int (*)();
    const auto type =
        reinterpret_cast<TypeFunction>(::dlsym(plugin.library, "H5PLget_plugin_type"));
    const bool right = type != nullptr && type() == kDriver;
    add("plug-in", right ? State::kOk : State::kFailed,
        right ? parts.plugin() : parts.plugin() + " is no driver of HDF5");
  }

  void program(const std::string& program) {
    const auto path = find_program(program);
    if (!path) {
      add("program", State::kFailed, fmt::format("there is no program '{}'", program));
      return;
    }
    const auto libraries = libraries_of(*path);
    if (!libraries) {
      add("program", State::kNote,
          *path +
              " is a script or a static program: its HDF5 and MPI are not known before it runs");
      return;
    }
    add("program", State::kOk, *path);
    report_.hdf5 = Hdf5Way::kNone;
    bool parallel = false;
    for (const auto& [name, target] : *libraries) {
      if (target == "not found") {
        add("program", State::kFailed, fmt::format("its library {} is not found", name));
      } else if (is_hdf5(name)) {
        hdf5(target);
      } else if (is_mpi(name)) {
        mpi(name);
        parallel = true;
      }
    }
    if (report_.hdf5 != Hdf5Way::kNone) return;
    // A wrapper (env, numactl, a shell) starts another program, an interpreter loads what it likes
    // later: neither shows the libraries that count.
    if (!parallel || path->find("python") != std::string::npos) {
      report_.hdf5 = Hdf5Way::kUnknown;
      add("HDF5", State::kNote,
          "not among the program's libraries: it is made ready for one that is loaded later, or "
          "by a program that this one starts");
    }
  }

  void directories() {
    const auto problems = check_node(job_.fs(), needed_directories(job_), SpaceTest::kCapacity);
    for (const std::string& problem : problems) add("node", State::kFailed, problem);
    if (problems.empty()) add("node", State::kOk, "control and cache directories can be used");
    const auto prefix = check_node(job_.fs(), {{job_.prefix(), 0, false}}, SpaceTest::kCapacity);
    for (const std::string& problem : prefix) add("prefix", State::kFailed, problem);
    if (prefix.empty()) add("prefix", State::kOk, job_.prefix());
  }

  void configuration() {
    const auto& warnings = job_.config().warnings();
    for (const std::string& warning : warnings) add("configuration", State::kNote, warning);
    if (warnings.empty()) add("configuration", State::kOk, "no errors");
  }

  void remote_shell() {
    const auto shell = RemoteShell::choose(job_.config(), job_.environment());
    if (!shell.ok()) {
      add("remote shell", State::kFailed, std::string(shell.status().message()));
    } else if (shell->kind() == RemoteShell::Kind::kNone) {
      add("remote shell", State::kNote,
          "no srun, pdsh, ssh or mpirun, and no SCR_REMOTE_SHELL: other nodes cannot be tested, "
          "and their caches cannot be saved");
    } else {
      add("remote shell", State::kOk, shell->name());
    }
  }

 private:
  void hdf5(const std::string& path) {
    using VersionFunction = int (*)(unsigned*, unsigned*, unsigned*);
    const Handle library(path);
    const auto version =
        library.library == nullptr
            ? nullptr
            : reinterpret_cast<VersionFunction>(::dlsym(library.library, "H5get_libversion"));
    unsigned major = 0;
    unsigned minor = 0;
    unsigned release = 0;
    if (version == nullptr || version(&major, &minor, &release) < 0) {
      add("HDF5", State::kFailed, fmt::format("cannot ask {} for its version", path));
      return;
    }
    const std::string name = fmt::format("{}.{}.{} ({})", major, minor, release, path);
    const bool old = major == 1 && minor < 14;
    const bool too_old = major == 1 && minor < 10;
    report_.hdf5 = old ? Hdf5Way::kLegacy : Hdf5Way::kPlugin;
    if (too_old) {
      add("HDF5", State::kFailed, name + ": too old, h5scr serves 1.10 and later");
    } else if (old && !job_.fs().info(find_installation().legacy_preload(), true).ok()) {
      add("HDF5", State::kFailed, name + ": h5scr was built without the preload for it");
    } else if (!old && find_installation().plugins.empty()) {
      add("HDF5", State::kFailed, name + ": h5scr was built without the driver");
    } else if (!old && series_of(kOurHdf5) != fmt::format("{}.{}", major, minor)) {
      add("HDF5", State::kFailed, fmt::format("{}: h5scr was built for {}", name, kOurHdf5));
    } else {
      add("HDF5", State::kOk, name);
    }
  }

  // Libraries of two MPIs in one process end in a crash.
  void mpi(const std::string& name) {
    const auto ours = libraries_of(find_installation().lib + "/libscr.so");
    if (!ours) {
      add("MPI", State::kFailed, "cannot read " + find_installation().lib + "/libscr.so");
      return;
    }
    if (ours->contains(name)) {
      add("MPI", State::kOk, fmt::format("{} ({})", name, ours->at(name)));
      return;
    }
    const auto other = std::find_if(ours->begin(), ours->end(),
                                    [](const auto& entry) { return is_mpi(entry.first); });
    add("MPI", State::kFailed,
        fmt::format("the program has {}, but h5scr was built with {}", name,
                    other == ours->end() ? "none" : other->first));
  }

  const JobSettings& job_;
  RuntimeReport& report_;
};

}  // namespace

std::string_view hdf5_way_name(Hdf5Way way) {
  switch (way) {
    case Hdf5Way::kNone:
      return "none";
    case Hdf5Way::kPlugin:
      return "plugin";
    case Hdf5Way::kLegacy:
      return "legacy";
    case Hdf5Way::kUnknown:
      return "unknown";
  }
  return {};
}

bool RuntimeReport::ok() const {
  return std::none_of(findings.begin(), findings.end(),
                      [](const Finding& finding) { return finding.state == State::kFailed; });
}

RuntimeReport check_runtime(const JobSettings& job, const std::string& program) {
  RuntimeReport report;
  Check check(job, report);
  check.plugin();
  if (!program.empty()) check.program(program);
  check.configuration();
  check.directories();
  check.remote_shell();
  return report;
}

}  // namespace scr::job
