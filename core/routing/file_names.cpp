#include "core/routing/file_names.hpp"

#include <algorithm>
#include <utility>

#include "core/base/config_sources.hpp"
#include "core/base/path.hpp"

namespace scr::routing {

namespace {

bool goes_up(std::string_view path) {
  return path == ".." || path.starts_with("../") || path.ends_with("/..") ||
         path.find("/../") != std::string_view::npos;
}

}  // namespace

void FileNames::use(Rules rules, std::string prefix) {
  rules_ = rules;
  configured_ = std::move(prefix);
  own_prefix_.clear();
  real_prefix_.clear();
}

void FileNames::begin_run(Rules rules, const std::string& prefix) {
  rules_ = rules;
  run_prefix_ = prefix;
}

void FileNames::end_run(Rules rules, std::string prefix) {
  rules_ = rules;
  configured_ = std::move(prefix);
  run_prefix_.clear();
}

const std::string& FileNames::prefix() {
  if (!run_prefix_.empty()) return run_prefix_;
  if (own_prefix_.empty()) {
    own_prefix_ = normalize(configured_, config::Environment::current().working_directory());
  }
  return own_prefix_;
}

// Behind a link ".." is another directory than the text says.
std::string FileNames::absolute_name(std::string_view name) const {
  auto absolute = normalize(name);
  if (!absolute.ok()) return std::string(name);
  if (!goes_up(name)) return *absolute;
  auto here = normalize(".");
  if (!here.ok()) return std::string(name);
  const std::string whole =
      name.starts_with('/') ? std::string(name) : *here + "/" + std::string(name);
  const std::size_t slash = whole.rfind('/');
  const std::string last = whole.substr(slash + 1);
  if (last.empty() || last == "." || last == "..") return *absolute;  // no file
  auto real = fs_.real_path(whole.substr(0, slash));
  if (!real.ok()) return whole;  // for the system to say what is wrong with it
  return *real == "/" ? *real + last : *real + "/" + last;
}

std::string FileNames::file_at(std::string_view name, bool all) {
  constexpr int kMostLinks = 40;  // as the kernel
  std::string absolute = absolute_name(name);
  for (int links = 0; links < kMostLinks; ++links) {
    const Route route = route_by_rules(absolute);
    if (!route.routed() && (!all || route.relative.empty())) return absolute;
    const std::string path = prefix() + "/" + route.relative;
    const auto info = fs_.info(path, /*follow=*/false);
    if (!info.ok() || info->type != FileInfo::Type::kSymlink) return absolute;
    auto target = fs_.read_symlink(path);
    if (!target.ok()) return absolute;
    absolute = absolute_name(target->starts_with('/') ? *target : parent_of(path) + "/" + *target);
  }
  return absolute;
}

// A directory without links; empty if it cannot be reached.
const std::string& FileNames::real_directory(const std::string& path) {
  RealDirectory& last = last_directory_;
  auto info = fs_.info(path, /*follow=*/true);
  const bool same =
      info.ok() && path == last.path && info->device == last.device && info->inode == last.inode;
  if (same) return last.real;
  last = {path, info.ok() ? info->device : 0, info.ok() ? info->inode : 0, {}};
  if (auto real = fs_.real_path(path); real.ok()) last.real = *std::move(real);
  return last.real;
}

Route FileNames::route_of(const std::string& absolute) {
  Route route = route_by_rules(absolute);
  const bool possible =
      route.reason == Route::Reason::kNoRule || route.reason == Route::Reason::kRule;
  if (route.routed() || !possible || route.relative.empty()) return route;
  if (const auto known = hinted_.find(route.relative); known != hinted_.end()) return known->second;
  if (!has_note_(route.relative)) return route;
  // Of another process or an earlier run: what is at the name is no data.
  route.type = config::RouteRule::Type::kCheckpoint;
  route.reason = Route::Reason::kHint;
  route.keep_all = true;
  return route;
}

Route FileNames::route_at_open(const std::string& absolute) {
  Route route = route_by_rules(absolute);
  return route.routed() || hinted_.empty() ? route : route_of(absolute);
}

// Nothing leads into a directory that is not there yet, and looking costs one call.
bool FileNames::find_real_prefix() {
  if (!real_prefix_.empty()) return true;
  if (!fs_.info(prefix(), /*follow=*/true).ok()) return false;
  auto real = fs_.real_path(prefix());
  if (!real.ok()) return false;
  real_prefix_ = *std::move(real);
  return true;
}

// Where the text of the path does not lead into the prefix directory, the directories behind its
// links may.
Route FileNames::route_by_rules(const std::string& absolute) {
  Route route = routing::decide(rules_, prefix(), absolute);
  const bool outside = route.reason == Route::Reason::kOutsidePrefix;
  const bool below = route.routed() && route.relative.find('/') != std::string::npos;
  const std::size_t slash = absolute.rfind('/');
  if ((!outside && !below) || slash == std::string::npos) return route;
  if (!find_real_prefix()) return route;
  const std::string parent = absolute.substr(0, std::max<std::size_t>(slash, 1));
  const std::string& real = real_directory(parent);
  if (real.empty()) return route;
  if (outside && real == parent && real_prefix_ == prefix()) return route;
  const auto inside = relative_to(real + absolute.substr(slash), real_prefix_);
  if (!inside || *inside == route.relative) return route;
  return routing::decide(rules_, prefix(), prefix() + "/" + *inside);
}

}  // namespace scr::routing
