// FaultPlan: what SCR_FAULT says. The grammar is at the top of faulty_filesystem.hpp.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <initializer_list>
#include <iterator>
#include <utility>

#include "core/base/faulty_filesystem.hpp"
#include "core/base/text.hpp"

namespace scr {
namespace {

struct ErrnoName {
  std::string_view name;
  int value;
};

constexpr ErrnoName kErrnoNames[] = {
    {"eacces", EACCES},
    {"eagain", EAGAIN},
    {"ebadf", EBADF},
    {"ebusy", EBUSY},
    {"edquot", EDQUOT},
    {"eexist", EEXIST},
    {"efault", EFAULT},
    {"efbig", EFBIG},
    {"eintr", EINTR},
    {"einval", EINVAL},
    {"eio", EIO},
    {"eisdir", EISDIR},
    {"eloop", ELOOP},
    {"emfile", EMFILE},
    {"emlink", EMLINK},
    {"enametoolong", ENAMETOOLONG},
    {"enfile", ENFILE},
    {"enodev", ENODEV},
    {"enoent", ENOENT},
    {"enolck", ENOLCK},
    {"enomem", ENOMEM},
    {"enospc", ENOSPC},
    {"enosys", ENOSYS},
    {"enotconn", ENOTCONN},
    {"enotdir", ENOTDIR},
    {"enotempty", ENOTEMPTY},
    {"enxio", ENXIO},
    {"eopnotsupp", EOPNOTSUPP},
    {"eperm", EPERM},
    {"eremoteio", EREMOTEIO},
    {"erofs", EROFS},
    {"estale", ESTALE},
    {"etimedout", ETIMEDOUT},
    {"exdev", EXDEV},
};

Status bad_part(std::string_view part, std::string_view why) {
  return invalid_argument(
      fmt::format("cannot understand SCR_FAULT: '{}': {}", text::escape(part), why));
}

std::string lower(std::string_view text) {
  std::string lowered(text);
  for (char& c : lowered) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lowered;
}

Status read_action(std::string_view part, std::string_view value, FaultPlan& plan) {
  using Action = FaultPlan::Action;
  const std::string name = lower(value);
  constexpr std::pair<std::string_view, Action> kActions[] = {{"count-only", Action::kCountOnly},
                                                              {"short", Action::kShort},
                                                              {"kill", Action::kKill},
                                                              {"tear", Action::kTear}};
  for (const auto& [action_name, action] : kActions) {
    if (name != action_name) continue;
    plan.action = action;
    return {};
  }
  for (const ErrnoName& known : kErrnoNames) {
    if (name != known.name) continue;
    plan.action = Action::kFail;
    plan.errno_value = known.value;
    return {};
  }
  return bad_part(part, "action is count-only, short, kill, tear or the name of an errno");
}

Status read_operations(std::string_view part, std::string_view value, FaultPlan& plan) {
  plan.operations = 0;
  for (const std::string_view name : text::split(value, '|')) {
    const auto found = std::find(kOperationNames.begin(), kOperationNames.end(), name);
    if (found == kOperationNames.end()) {
      return bad_part(part, fmt::format("operations are {}", text::join(kOperationNames, "|")));
    }
    plan.operations |= 1U << static_cast<unsigned>(std::distance(kOperationNames.begin(), found));
  }
  return {};
}

Status read_count(std::string_view part, std::string_view value, std::uint64_t& count) {
  const auto number = text::parse_uint(value);
  if (!number || *number == 0) return bad_part(part, "this must be a number from 1");
  count = *number;
  return {};
}

Status read_rank(std::string_view part, std::string_view value, FaultPlan& plan) {
  const auto number = text::parse_uint(value);
  if (!number || *number > std::numeric_limits<int>::max()) {
    return bad_part(part, "this must be a rank, from 0");
  }
  plan.rank = static_cast<int>(*number);
  return {};
}

Status read_part(std::string_view part, FaultPlan& plan) {
  const std::size_t equals = part.find('=');
  if (equals == std::string_view::npos) return bad_part(part, "this must be KEY=VALUE");
  const std::string_view key = part.substr(0, equals);
  const std::string_view value = part.substr(equals + 1);
  if (value.empty()) return bad_part(part, "the value is missing");
  if (key == "n") return read_count(part, value, plan.n);
  if (key == "op") return read_operations(part, value, plan);
  if (key == "action") return read_action(part, value, plan);
  if (key == "rank") return read_rank(part, value, plan);
  if (key == "repeat" && value != "all") return read_count(part, value, plan.repeat);
  if (key == "repeat") {
    plan.repeat = FaultPlan::kForever;
  } else if (key == "path") {
    plan.path = value;
  } else if (key == "log") {
    plan.log = value;
  } else {
    return bad_part(part, "keys are action, n, op, path, repeat, rank and log");
  }
  return {};
}

// Only reads and writes can be done by half.
Status check_operations(bool given, FaultPlan& plan) {
  std::uint32_t possible = FaultPlan::kAllOperations;
  if (plan.action == FaultPlan::Action::kTear) possible = FaultPlan::bit(Operation::kWrite);
  if (plan.action == FaultPlan::Action::kShort) {
    possible = FaultPlan::bit(Operation::kRead) | FaultPlan::bit(Operation::kWrite);
  }
  const bool kills = plan.action == FaultPlan::Action::kKill;
  if (!given) plan.operations = kills ? possible : possible & ~FaultPlan::kHints;
  if ((plan.operations & ~possible) == 0) return {};
  return bad_part("op", "action=short goes with op=read|write only, action=tear with op=write");
}

}  // namespace

FaultPlan FaultPlan::fail_at(std::uint64_t n, int errno_value, std::uint64_t repeat) {
  FaultPlan plan;
  plan.action = Action::kFail;
  plan.operations &= ~kHints;
  plan.errno_value = errno_value;
  plan.n = n;
  plan.repeat = repeat;
  return plan;
}

FaultPlan FaultPlan::kill_at(std::uint64_t n) {
  FaultPlan plan;
  plan.action = Action::kKill;
  plan.n = n;
  return plan;
}

Result<FaultPlan> FaultPlan::parse(std::string_view text) {
  FaultPlan plan;
  bool has_action = false;
  bool has_operations = false;
  for (const std::string_view part : text::split(text, ',')) {
    SCR_RETURN_IF_ERROR(read_part(part, plan));
    has_action = has_action || part.starts_with("action=");
    has_operations = has_operations || part.starts_with("op=");
  }
  if (!has_action) return bad_part(text, "action=... is missing");
  SCR_RETURN_IF_ERROR(check_operations(has_operations, plan));
  return plan;
}

std::string_view FaultPlan::this_rank() {
  for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"}) {
    if (const char* value = std::getenv(variable)) return value;
  }
  return "0";
}

bool FaultPlan::applies_to_this_rank() const {
  return !rank || text::parse_int(this_rank()) == *rank;
}

}  // namespace scr
