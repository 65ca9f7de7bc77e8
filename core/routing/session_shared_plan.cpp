// Opening a file that several processes write together, first part: the first of them looks at what
// there is, claims the name, and says to all what is to be done.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <climits>

#include "core/base/access.hpp"
#include "core/base/log.hpp"
#include "core/routing/session.hpp"
#include "core/routing/shared_open.hpp"
#include "core/shared_file/log.hpp"
#include "core/shared_file/shared_file.hpp"

namespace scr::routing {

namespace {

using shared_file::SharedFile;

constexpr std::uint64_t kNodeClaim = std::uint64_t{1} << 63U;

Hash refusal(const Status& why) {
  Hash plan;
  plan.set_value("CODE", static_cast<int>(why.code()));
  plan.set_value("WHY", why.message());
  plan.set_value("ERRNO", why.errno_value());
  plan.set_value("KIND", "REFUSE");
  return plan;
}

}  // namespace

// What is claimed when the file is opened for writing; nothing if it is none of ours.
std::string Session::name_to_claim(const SharedOpen& how) {
  const std::lock_guard lock(mutex_);
  if (!how.write || config() == nullptr || off_) return {};
  const Route route = shared_route(names_.file_at(how.name, /*all=*/true), how);
  if (!route.routed() || shared_moved_.contains(prefix() + "/" + route.relative)) return {};
  return route.relative;
}

// Two groups of processes that write one name at the same time would each have a file of their own,
// of which one would win. So one has the name while it has the file open, and what is planned holds
// until then.
Hash Session::claim_and_plan(const SharedOpen& how, int processes) {
  const std::string name = name_to_claim(how);
  if (name.empty()) return plan_shared(how, processes);
  // Processes by themselves have one file together if they are on one node.
  const std::uint64_t owner = [&] {
    const std::lock_guard lock(mutex_);
    const auto rank = static_cast<std::uint64_t>(runtime_->context().rank());
    return processes == 1 ? kNodeClaim | static_cast<std::uint64_t>(services_.node())
                          : (rank << 32U) + ++claims_;
  }();
  auto claimed = services_.homes()->claim(name, owner);
  if (!claimed.ok()) return refusal(claimed.status());
  if (!*claimed) {
    return refusal({StatusCode::kUnavailable,
                    fmt::format("cannot open '{}' for writing: other processes have it open for "
                                "writing; open it with a communicator that has them all, or one "
                                "after the other",
                                how.name),
                    EBUSY});
  }
  Hash plan = plan_shared(how, processes);
  const auto kind = plan.value("KIND");
  if (kind == "LOGS" || kind == "EACH" || kind == "BRING") {
    plan.set_value("CLAIM", owner);
    plan.set_value("CLAIMED", name);
  } else {
    (void)services_.homes()->release(name, owner);
  }
  return plan;
}

// On the first process, when the file is closed.
void Session::release_claim(const Hash& plan) const {
  const auto name = plan.value("CLAIMED");
  auto owner = plan.require_uint("CLAIM");
  if (!name || !owner.ok() || !services_.homes()) return;
  Status status = services_.homes()->release(std::string(*name), *owner);
  if (!status.ok()) log::warning("{}", status.message());
}

// Why a new version of the file cannot be written to logs in the cache; empty if it can.
std::string Session::why_no_logs(const std::string& relative) {
  if (runtime_->window_bypasses()) {
    return runtime_->context()
                   .redundancy_for(runtime_->window(), /*output=*/false)
                   .descriptor.bypass
               ? "the cache is bypassed by setting (SCR_CACHE_BYPASS, or BYPASS of a CKPT line)"
               : "there is no room for the dataset in the cache";
  }
  // With the number that it gets if its file is opened again by others.
  const int last_rank = runtime_->context().size() - 1;
  const std::string longest =
      shared_file::log_name(relative.substr(relative.rfind('/') + 1), last_rank) + ".4095";
  if (longest.size() <= NAME_MAX) return {};
  return fmt::format("the name of '{}/{}' is too long for that of a log beside it", prefix(),
                     relative);
}

// One process decides for all.
Hash Session::plan_shared(const SharedOpen& how, int processes) {
  const std::lock_guard lock(mutex_);
  Hash plan;
  const auto decide_on = [&](std::string_view kind) {
    plan.set_value("KIND", kind);
    return plan;
  };
  const auto refuse = [](const Status& why) { return refusal(why); };
  if (config() == nullptr || off_) return decide_on("PASS");
  std::string absolute = names_.file_at(how.name, /*all=*/true);
  const Route route = shared_route(absolute, how);
  if (!route.routed()) {
    if (how.write) report_.count_passed(route.reason);
    return decide_on("PASS");
  }
  absolute = prefix() + "/" + route.relative;
  auto copy = find(route, absolute);
  if (!copy.ok()) return refuse(copy.status());
  // MPI would read the marker's bytes; and it has no way to say that the old contents do not
  // matter.
  if (copy->lost) return refuse(no_data(absolute, copy->marker));
  const bool exists = copy->where != Copy::Where::kNowhere;
  plan.set_value("EXISTS", exists ? 1 : 0);
  if (how.write && how.create && how.exclusive && exists) {
    return refuse(errno_status(EEXIST, "create", absolute));
  }
  const bool at_name = !exists || copy->where == Copy::Where::kPlain;
  // MPI opens what is at its name, and says in its own words that there is nothing.
  if (at_name && (!how.write || how.delete_on_close || (!exists && !how.create))) {
    return decide_on("PASS");
  }
  if (how.delete_on_close) {
    return refuse(failed_precondition(
        fmt::format("'{}' is in the cache and cannot be opened with delete-on-close", absolute)));
  }
  if (how.write) {
    // MPI says in its own words what cannot be opened, and writes what can only be written in
    // place.
    const auto access = check_write_access(fs_, absolute);
    if ((!access.ok() || !access->replaceable) && at_name) return decide_on("PASS");
    if (!access.ok()) return refuse(access.status());
    if (!access->replaceable) return refuse(errno_status(EACCES, "create", absolute));
  }
  if (copy->where == Copy::Where::kShared) {
    auto text = encode(copy->marker);
    if (!text.ok()) return refuse(text.status());
    plan.set_value("SHARED", *text);
  }
  // Processes of one node that write one file each by itself know of each other in the cache only.
  const bool each = processes == 1 && !(runtime_->window_bypasses() && at_name);
  if (!how.write || each) return decide_on("EACH");
  if (const std::string why = why_no_logs(route.relative); !why.empty()) {
    report_.warn_once("files of MPI-IO are written without protection", why);
    if (at_name) return decide_on("PASS");
    plan.set_value("NAME", absolute);
    plan.set_value("WHY", why);
    return decide_on("BRING");
  }
  if (shared_moved_.contains(absolute)) return decide_on("PASS");
  if (auto known = shared_window_.find(absolute); known != shared_window_.end()) {
    if (known->second.open) {
      return refuse(failed_precondition(fmt::format(
          "'{}' is open already, and is written by the processes that have it open", absolute)));
    }
    // Others may have written a newer one since.
    if (copy->where == Copy::Where::kShared && copy->marker.id == known->second.marker.id) {
      plan.set_value("ID", known->second.marker.id);
    }
  }
  std::uint64_t generation = copy->generation;
  if (auto dropped = dropped_shared_.find(route.relative); dropped != dropped_shared_.end()) {
    generation = std::max(generation, dropped->second);
  }
  plan.set_value("GENERATION", generation + 1);
  plan.set_value("AT_NAME", at_name ? 1 : 0);
  return decide_on("LOGS");
}

// Where files cannot be shared MPI opens them, but never a marker in the place of the data.
Hash Session::plan_without_homes(const SharedOpen& how, int processes) {
  const std::lock_guard lock(mutex_);
  Hash plan;
  plan.set_value("KIND", "PASS");
  std::string absolute = names_.absolute_name(how.name);
  const auto refuse = [&] {
    return refusal(failed_precondition(
        fmt::format("'{}' cannot be opened: its data is in the cache or in a container, and h5scr "
                    "has ended, or cannot serve files of several processes in this run (a warning "
                    "at its start says why)",
                    absolute)));
  };
  if (passive() || !runtime_ || config() == nullptr) return plan;
  const Route route = shared_route(names_.file_at(how.name, /*all=*/true), how);
  if (!route.routed()) return plan;
  absolute = prefix() + "/" + route.relative;
  auto copy = find(route, absolute);
  if (!copy.ok()) return refusal(copy.status());
  using Where = Copy::Where;
  if (copy->where == Where::kPlain || (copy->where == Where::kNowhere && !copy->lost)) return plan;
  // One process can read what is no file of several.
  const bool reachable = !copy->lost && copy->where != Where::kShared &&
                         !(copy->where == Where::kRemote && copy->marker.shared);
  if (how.write || processes > 1 || !reachable) return refuse();
  plan.set_value("KIND", "EACH");
  return plan;
}

// What the rules say of a name, and what the hints say to that.
Route Session::shared_route(const std::string& absolute, const SharedOpen& how) {
  Route route = names_.route_of(absolute);
  const auto hint = [&](const char* key) {
    const auto found = how.hints.find(key);
    return found == how.hints.end() ? std::string() : found->second;
  };
  using Type = config::RouteRule::Type;
  std::string type = hint("scr_type");
  std::ranges::transform(type, type.begin(), [](unsigned char c) { return std::toupper(c); });
  if (type != "CKPT" && type != "OUTPUT" && type != "BYPASS") type.clear();
  const auto is_off = [](const std::string& value) { return value == "0" || value == "false"; };
  const std::string wanted = hint("scr_route");
  const std::string flush = hint("scr_flush");
  // What is in the cache is served from there; at the name there is only a marker.
  const bool passes = is_off(wanted) || type == "BYPASS";
  if (passes && (!route.routed() || !has_note(route.relative))) {
    route.type = Type::kBypass;
    route.reason = Route::Reason::kHint;
    return route;
  }
  // Hints do not route what cannot be.
  const bool possible = route.routed() || route.reason == Route::Reason::kNoRule ||
                        (route.reason == Route::Reason::kRule && !wanted.empty());
  if (!possible || (!route.routed() && wanted.empty() && type.empty())) return route;
  if (!route.routed()) {
    route.type = Type::kCheckpoint;
    route.reason = Route::Reason::kHint;
  }
  if (type == "OUTPUT" || (!flush.empty() && !is_off(flush))) route.type = Type::kOutput;
  if (type == "CKPT") route.type = Type::kCheckpoint;
  return route;
}

// The same, and remembered for the calls of MPI-IO and HDF5 that have no hints.
Route Session::hinted_route(const SharedOpen& how) {
  const std::lock_guard lock(mutex_);
  if (config() == nullptr || off_) return {};
  Route route = shared_route(names_.file_at(how.name, /*all=*/true), how);
  const bool by_rules = route.reason != Route::Reason::kHint && how.hints.empty();
  if (route.routed() && !by_rules) names_.remember(route);
  return route;
}

void Session::note_need(const SharedOpen& how) {
  if (how.write && hinted_route(how).routed()) needed_ = true;
}

std::map<std::string, std::string> Session::hints_in_force(const SharedOpen& how) {
  const std::lock_guard lock(mutex_);
  if (!runtime_) return {};
  const Route route = shared_route(names_.file_at(how.name, /*all=*/true), how);
  const bool output = route.type == config::RouteRule::Type::kOutput;
  const bool every_one = config()->get_uint("SCR_FLUSH") == 1;
  const redundancy::RedundancySet& set =
      runtime_->context().redundancy_for(runtime_->window(), output).sets.front();
  return {{"scr_route", "1"},
          {"scr_type", std::string(config::route_type_name(route.type))},
          {"scr_order", how.is_strict() ? "strict" : "lazy"},
          {"scr_flush", output || (route.keep_all && every_one) ? "1" : "0"},
          {"scr_copy_type", std::string(redundancy::scheme_name(set.scheme))},
          {"scr_set_size", std::to_string(set.size())}};
}

Result<std::unique_ptr<SharedFile>> Session::open_shared(const std::shared_ptr<Communicator>& comm,
                                                         const SharedOpen& how) {
  ++opens_;
  const bool ready = comm->all_true(!passive() && attached_ && services_.homes() != nullptr);
  Hash plan;
  if (comm->rank() == 0) {
    plan = ready ? claim_and_plan(how, comm->size()) : plan_without_homes(how, comm->size());
    const bool passes = plan.value("KIND") == "PASS";
    const Status status = passes ? refuse_marker(fs_, names_.absolute_name(how.name)) : Status();
    if (!status.ok()) plan = refusal(status);
  }
  SCR_RETURN_IF_ERROR(broadcast_hash(*comm, plan, 0));
  const std::string kind(plan.value("KIND").value_or("PASS"));
  if (kind == "REFUSE") {
    SCR_ASSIGN_OR_RETURN(const std::int64_t code, plan.require_int("CODE"));
    SCR_ASSIGN_OR_RETURN(const std::int64_t error, plan.require_int("ERRNO"));
    return Status(static_cast<StatusCode>(code), std::string(plan.value("WHY").value_or("")),
                  static_cast<int>(error));
  }
  if (kind == "BRING") {
    const Status status = bring_together(*comm, how, plan);
    if (comm->rank() == 0) release_claim(plan);
    if (!status.ok()) return status;
    return std::unique_ptr<SharedFile>();
  }
  if (kind != "EACH" && kind != "LOGS") return std::unique_ptr<SharedFile>();
  auto opened = kind == "EACH" ? open_each(comm, how, plan) : open_logs(comm, how, plan);
  if (!opened.ok() && comm->rank() == 0) release_claim(plan);
  return opened;
}

}  // namespace scr::routing
