#include "core/job/launcher_options.hpp"

#include <algorithm>
#include <array>
#include <span>

namespace scr::job {
namespace {

using Names = std::span<const std::string_view>;

bool has(Names names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// mpirun of Open MPI 4 (`mpirun --help general|mapping|...`) and 5: one dash or two.
constexpr auto kOpenMpiOne = std::to_array<std::string_view>({"app",
                                                              "bind-to",
                                                              "map-by",
                                                              "ppr",
                                                              "prefix",
                                                              "preload-files",
                                                              "rank-by",
                                                              "H",
                                                              "host",
                                                              "N",
                                                              "am",
                                                              "cf",
                                                              "cartofile",
                                                              "cpu-list",
                                                              "cpu-set",
                                                              "cpus-per-proc",
                                                              "cpus-per-rank",
                                                              "c",
                                                              "np",
                                                              "n",
                                                              "debugger",
                                                              "default-hostfile",
                                                              "hnp",
                                                              "hostfile",
                                                              "launch-agent",
                                                              "machinefile",
                                                              "max-restarts",
                                                              "max-vm-size",
                                                              "npernode",
                                                              "npersocket",
                                                              "ompi-server",
                                                              "output-filename",
                                                              "path",
                                                              "personality",
                                                              "report-events",
                                                              "report-pid",
                                                              "report-uri",
                                                              "rf",
                                                              "rankfile",
                                                              "stdin",
                                                              "timeout",
                                                              "tune",
                                                              "wdir",
                                                              "wd",
                                                              "x",
                                                              "xml-file",
                                                              "xterm",
                                                              "display",
                                                              "runtime-options",
                                                              "output",
                                                              "dvm-uri",
                                                              "add-host",
                                                              "add-hostfile",
                                                              "forward-signals",
                                                              "stream-buffering"});
constexpr auto kOpenMpiTwo = std::to_array<std::string_view>(
    {"mca", "gmca", "pmixmca", "gpmixmca", "prtemca", "omca", "gomca"});
constexpr auto kOpenMpiNone = std::to_array<std::string_view>({"noprefix",
                                                               "allow-run-as-root",
                                                               "bind-to-core",
                                                               "bind-to-socket",
                                                               "bind-to-none",
                                                               "bycore",
                                                               "bynode",
                                                               "byslot",
                                                               "bysocket",
                                                               "continuous",
                                                               "debug-daemons-file",
                                                               "debug-daemons",
                                                               "debug",
                                                               "disable-recovery",
                                                               "display-allocation",
                                                               "display-devel-allocation",
                                                               "display-devel-map",
                                                               "display-diffable-map",
                                                               "display-map",
                                                               "display-topo",
                                                               "do-not-launch",
                                                               "do-not-resolve",
                                                               "d",
                                                               "debug-devel",
                                                               "enable-instant-on-support",
                                                               "enable-recovery",
                                                               "fwd-mpirun-port",
                                                               "get-stack-traces",
                                                               "index-argv-by-rank",
                                                               "leave-session-attached",
                                                               "merge-stderr-to-stdout",
                                                               "nolocal",
                                                               "nooversubscribe",
                                                               "novm",
                                                               "output-proctable",
                                                               "oversubscribe",
                                                               "pernode",
                                                               "q",
                                                               "quiet",
                                                               "report-bindings",
                                                               "report-child-jobs-separately",
                                                               "report-state-on-timeout",
                                                               "set-cwd-to-session-dir",
                                                               "show-progress",
                                                               "s",
                                                               "preload-binary",
                                                               "tag-output",
                                                               "timestamp-output",
                                                               "tv",
                                                               "use-hwthread-cpus",
                                                               "use-regexp",
                                                               "v",
                                                               "verbose",
                                                               "xml"});

// mpiexec of Hydra (MPICH, Intel MPI): one dash or two.
constexpr auto kHydraOne = std::to_array<std::string_view>({"genvlist",
                                                            "f",
                                                            "host",
                                                            "hosts",
                                                            "hostfile",
                                                            "machine",
                                                            "machinefile",
                                                            "wdir",
                                                            "path",
                                                            "configfile",
                                                            "envlist",
                                                            "n",
                                                            "np",
                                                            "launcher",
                                                            "launcher-exec",
                                                            "rmk",
                                                            "topolib",
                                                            "bind-to",
                                                            "map-by",
                                                            "membind",
                                                            "demux",
                                                            "iface",
                                                            "ppn",
                                                            "perhost",
                                                            "prepend-pattern",
                                                            "outfile-pattern",
                                                            "errfile-pattern",
                                                            "nameserver",
                                                            "localhost",
                                                            "usize",
                                                            "gpus-per-proc",
                                                            "bootstrap",
                                                            "bootstrap-exec"});
constexpr auto kHydraTwo = std::to_array<std::string_view>({"genv", "env"});
constexpr auto kHydraNone = std::to_array<std::string_view>(
    {"genvnone", "genvall", "envnone", "envall", "enable-x", "disable-x", "v", "verbose",
     "print-all-exitcodes", "print-rank-map", "profile", "l", "prepend-rank",
     "disable-auto-cleanup", "disable-hostname-propagation", "order-nodes", "pmi-port",
     "skip-launch-node", "rr"});

// srun: options whose value may be left out take it after "=" only.
constexpr auto kSrunOne = std::to_array<std::string_view>({"account",
                                                           "acctg-freq",
                                                           "bb",
                                                           "bbf",
                                                           "begin",
                                                           "chdir",
                                                           "cluster-constraint",
                                                           "clusters",
                                                           "comment",
                                                           "constraint",
                                                           "container",
                                                           "context",
                                                           "core-spec",
                                                           "cores-per-socket",
                                                           "cpu-bind",
                                                           "cpu-freq",
                                                           "cpus-per-gpu",
                                                           "cpus-per-task",
                                                           "deadline",
                                                           "delay-boot",
                                                           "dependency",
                                                           "distribution",
                                                           "epilog",
                                                           "error",
                                                           "exclude",
                                                           "export",
                                                           "export-file",
                                                           "extra-node-info",
                                                           "gid",
                                                           "gpu-bind",
                                                           "gpu-freq",
                                                           "gpus",
                                                           "gpus-per-node",
                                                           "gpus-per-socket",
                                                           "gpus-per-task",
                                                           "gres",
                                                           "gres-flags",
                                                           "hint",
                                                           "het-group",
                                                           "input",
                                                           "jobid",
                                                           "job-name",
                                                           "licenses",
                                                           "mail-type",
                                                           "mail-user",
                                                           "mcs-label",
                                                           "mem",
                                                           "mem-bind",
                                                           "mem-per-cpu",
                                                           "mem-per-gpu",
                                                           "mincpus",
                                                           "mpi",
                                                           "msg-timeout",
                                                           "network",
                                                           "nodefile",
                                                           "nodelist",
                                                           "nodes",
                                                           "ntasks",
                                                           "ntasks-per-core",
                                                           "ntasks-per-gpu",
                                                           "ntasks-per-node",
                                                           "ntasks-per-socket",
                                                           "open-mode",
                                                           "output",
                                                           "partition",
                                                           "power",
                                                           "priority",
                                                           "profile",
                                                           "prolog",
                                                           "qos",
                                                           "relative",
                                                           "reservation",
                                                           "signal",
                                                           "slurmd-debug",
                                                           "sockets-per-node",
                                                           "switches",
                                                           "task-epilog",
                                                           "task-prolog",
                                                           "thread-spec",
                                                           "threads",
                                                           "threads-per-core",
                                                           "time",
                                                           "time-min",
                                                           "tmp",
                                                           "tres-per-task",
                                                           "uid",
                                                           "wait",
                                                           "wckey"});
constexpr auto kSrunNone = std::to_array<std::string_view>(
    {"bcast",      "compress",   "contiguous", "disable-status",    "exact",
     "exclusive",  "hold",       "ignore-pbs", "immediate",         "kill-on-bad-exit",
     "label",      "multi-prog", "nice",       "no-allocate",       "no-kill",
     "no-requeue", "overcommit", "overlap",    "oversubscribe",     "preserve-env",
     "propagate",  "pty",        "quiet",      "quit-on-interrupt", "reboot",
     "resv-ports", "spread-job", "test-only",  "unbuffered",        "use-min-nodes",
     "verbose",    "whole",      "x11"});
constexpr std::string_view kSrunShortOne = "aAbBcCdDeGiJLmMnNopPqrStTwWxZ";
constexpr std::string_view kSrunShortNone = "EHklOQRsuvX";
constexpr std::string_view kSrunShortOptional = "IK";  // a value only in the same word: -K1

// flux run
constexpr auto kFluxOne = std::to_array<std::string_view>({"add-file",
                                                           "bank",
                                                           "begin-time",
                                                           "conf",
                                                           "cores",
                                                           "cores-per-task",
                                                           "cwd",
                                                           "dependency",
                                                           "env",
                                                           "env-file",
                                                           "env-remove",
                                                           "error",
                                                           "gpus-per-node",
                                                           "gpus-per-task",
                                                           "input",
                                                           "job-name",
                                                           "nodes",
                                                           "nslots",
                                                           "ntasks",
                                                           "output",
                                                           "queue",
                                                           "requires",
                                                           "rlimit",
                                                           "setattr",
                                                           "setopt",
                                                           "signal",
                                                           "taskmap",
                                                           "tasks-per-core",
                                                           "tasks-per-node",
                                                           "time-limit",
                                                           "urgency"});
constexpr auto kFluxNone = std::to_array<std::string_view>(
    {"debug", "dry-run", "exclusive", "label-io", "quiet", "unbuffered", "verbose", "wait-event"});
constexpr std::string_view kFluxShortOne = "BcgNnoqStx";
constexpr std::string_view kFluxShortNone = "luv";

std::string_view without_dashes(std::string_view word) {
  const std::size_t start = word.find_first_not_of('-');
  return start == std::string_view::npos ? std::string_view() : word.substr(start);
}

std::optional<std::size_t> of_lists(std::string_view name, Names one, Names two, Names none) {
  if (has(one, name)) return 1;
  if (has(two, name)) return 2;
  if (has(none, name)) return 0;
  return std::nullopt;
}

// "-n 4", "-n4"; flags may stand together ("-lu").
std::optional<std::size_t> of_letters(std::string_view letters, std::string_view one,
                                      std::string_view none, std::string_view optional = {}) {
  for (std::size_t i = 0; i < letters.size(); ++i) {
    if (optional.find(letters[i]) != std::string_view::npos) return 0;
    if (one.find(letters[i]) != std::string_view::npos) return i + 1 == letters.size() ? 1 : 0;
    if (none.find(letters[i]) == std::string_view::npos) return std::nullopt;
  }
  return 0;
}

}  // namespace

std::optional<std::size_t> values_of_option(LaunchCommand::Kind kind, std::string_view word) {
  const std::string_view name = without_dashes(word);
  const bool is_long = word.starts_with("--");
  switch (kind) {
    case LaunchCommand::Kind::kNone:
      return std::nullopt;
    case LaunchCommand::Kind::kOpenMpi:
      if (name.find('=') != std::string_view::npos) return 0;
      return of_lists(name, kOpenMpiOne, kOpenMpiTwo, kOpenMpiNone);
    case LaunchCommand::Kind::kHydra:
      if (name.find('=') != std::string_view::npos) return 0;
      return of_lists(name, kHydraOne, kHydraTwo, kHydraNone);
    case LaunchCommand::Kind::kSrun:
      if (!is_long) return of_letters(name, kSrunShortOne, kSrunShortNone, kSrunShortOptional);
      if (name.find('=') != std::string_view::npos) return 0;
      return of_lists(name, kSrunOne, {}, kSrunNone);
    case LaunchCommand::Kind::kFlux:
      if (!is_long) return of_letters(name, kFluxShortOne, kFluxShortNone);
      if (name.find('=') != std::string_view::npos) return 0;
      return of_lists(name, kFluxOne, {}, kFluxNone);
  }
  return std::nullopt;
}

}  // namespace scr::job
