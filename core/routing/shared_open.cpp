#include "core/routing/shared_open.hpp"

#include <fmt/format.h>
#include <strings.h>

#include "core/routing/marker.hpp"
#include "core/routing/session.hpp"

namespace scr::routing {

bool SharedOpen::is_strict() const {
  const auto order = hints.find("scr_order");
  return order != hints.end() && strcasecmp(order->second.c_str(), "strict") == 0;
}

Result<std::unique_ptr<shared_file::SharedFile>> open_shared(
    const std::shared_ptr<Communicator>& comm, const SharedOpen& how) {
  return Session::process().open_shared(comm, how);
}

Status refuse_marker(FileSystem& fs, const std::string& name) {
  const auto marker = read_marker(fs, name);
  if (marker.status().code() == StatusCode::kCorrupt) return marker.status();
  if (!marker.ok() || !*marker) return {};  // MPI says in its own words what it cannot open
  const Marker& found = **marker;
  if (found.container) {
    return failed_precondition(fmt::format(
        "'{}' cannot be opened: its data is in a container (dataset {}), and h5scr does not serve "
        "this open; copy it out with scr_index --extract, or open it by a program that h5scr "
        "serves",
        name, found.dataset));
  }
  return failed_precondition(fmt::format(
      "'{}' cannot be opened: its data is in the cache of node {} (rank {} of job {}, dataset {}), "
      "and h5scr does not serve this open; open it by a program that h5scr serves, or once the "
      "dataset is flushed, or delete it to write it anew",
      name, found.host, found.rank, found.job, found.dataset));
}

std::map<std::string, std::string> hints_in_force(const SharedOpen& how) {
  return Session::process().hints_in_force(how);
}

}  // namespace scr::routing
