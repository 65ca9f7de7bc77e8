// Which address of this host the range service listens at.
#pragma once

#include <string>
#include <vector>

#include "core/base/status.hpp"

namespace scr::service {

// An address of this host, with the interface it belongs to.
struct LocalAddress {
  std::string interface;
  std::string address;  // as numbers
  bool loopback = false;
};

// `setting` (SCR_SERVICE_INTERFACE) names an interface, or a network such as 10.1.0.0/16; an error
// that lists what there is if this host has no address there. If it is empty: the address that the
// host's name stands for, if it is one of this host and no loopback; else the first that is no
// loopback; else a loopback, which serves one host only.
Result<std::string> choose_address(const std::string& setting);

// The same without asking the system. `named` are the addresses that the host's name stands for.
Result<std::string> choose_address(const std::string& setting,
                                   const std::vector<LocalAddress>& local,
                                   const std::vector<std::string>& named);

}  // namespace scr::service
