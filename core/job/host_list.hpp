// Lists of hosts in the short form that batch systems use: "atlas[3,5-7,9-11],login01.site".
//
// Names and bracket groups alternate as one likes ("rack[0-1]n[01-16]-ib"), items are separated by
// commas or blanks, numbers keep their leading zeros. Lists come from variables, files and command
// lines and end in command lines of ssh and the like, so only letters, digits and "._-" are let
// through, never a "-" at the start. Pure functions, safe from any thread.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.hpp"

namespace scr::job {

using Hosts = std::vector<std::string>;

// More hosts than any machine has; a list with more is refused before memory is used for it.
inline constexpr std::size_t kMostHosts = 1'000'000;

// All hosts of a list, in its order, duplicates included.
Result<Hosts> expand_hosts(std::string_view list);

// The short form: hosts that differ in one number share a bracket, sorted by that number,
// duplicates included; groups are in the order in which they first appear.
std::string compress_hosts(std::span<const std::string> hosts);

// Those of `hosts` that are not, or that are, in `others`; order and duplicates stay.
Hosts hosts_minus(std::span<const std::string> hosts, std::span<const std::string> others);
Hosts hosts_in_both(std::span<const std::string> hosts, std::span<const std::string> others);
// Each host once, where it first appears.
Hosts unique_hosts(std::span<const std::string> hosts);

bool contains_host(std::span<const std::string> hosts, std::string_view host);

// The name that a list uses for this host: names, but not addresses, may be given with or without
// their domain. Empty if the list has no such host.
std::string name_in_list(std::span<const std::string> hosts, std::string_view host);
// The same for the host that asks, whose name is `own`: for a list it may be "localhost", too, or
// an address of the loopback network.
std::string own_name_in_list(std::span<const std::string> hosts, std::string_view own);

// A name that may stand in a command line.
bool is_host_name(std::string_view name);

}  // namespace scr::job
