#include "core/routing/shared_open.hpp"

#include "core/routing/session.hpp"

namespace scr::routing {

Result<std::unique_ptr<shared_file::SharedFile>> open_shared(
    const std::shared_ptr<Communicator>& comm, const SharedOpen& how) {
  return Session::process().open_shared(comm, how);
}

std::map<std::string, std::string> hints_in_force(const SharedOpen& how) {
  return Session::process().hints_in_force(how);
}

}  // namespace scr::routing
