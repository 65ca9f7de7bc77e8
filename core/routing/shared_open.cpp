#include "core/routing/shared_open.hpp"

#include <strings.h>

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

std::map<std::string, std::string> hints_in_force(const SharedOpen& how) {
  return Session::process().hints_in_force(how);
}

}  // namespace scr::routing
