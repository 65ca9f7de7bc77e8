#include "core/service/address.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <netdb.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "core/base/text.hpp"

namespace scr::service {
namespace {

using AddressBytes = std::vector<unsigned char>;  // 4 of IPv4, 16 of IPv6, none if it is no address

AddressBytes parse_address(const std::string& text) {
  for (const auto& [family, size] : {std::pair(AF_INET, 4), std::pair(AF_INET6, 16)}) {
    AddressBytes bytes(static_cast<std::size_t>(size));
    if (::inet_pton(family, text.c_str(), bytes.data()) == 1) return bytes;
  }
  return {};
}

struct Network {
  AddressBytes start;
  std::size_t bits = 0;

  bool contains(const AddressBytes& address) const {
    if (address.size() != start.size()) return false;
    for (std::size_t bit = 0; bit < bits; ++bit) {
      const unsigned mask = 0x80U >> (bit % 8);
      if (((address[bit / 8] ^ start[bit / 8]) & mask) != 0) return false;
    }
    return true;
  }
};

// A network "a.b.c.d/n"; an address alone is a network of one.
std::optional<Network> parse_network(const std::string& text) {
  const std::size_t slash = text.find('/');
  Network network;
  network.start = parse_address(text.substr(0, slash));
  if (network.start.empty()) return std::nullopt;
  network.bits = network.start.size() * 8;
  if (slash == std::string::npos) return network;
  const auto bits = text::parse_uint(text.substr(slash + 1));
  if (!bits || *bits > network.bits) return std::nullopt;
  network.bits = *bits;
  return network;
}

std::string numbers_of(const sockaddr* address) {
  std::array<char, NI_MAXHOST> text = {};
  const bool v6 = address->sa_family == AF_INET6;
  const socklen_t size = v6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  const int failed =
      ::getnameinfo(address, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  return failed == 0 ? std::string(text.data()) : std::string();
}

// Those of IPv6 that need an interface beside them (fe80::) would not be understood elsewhere.
bool is_usable(const sockaddr* address) {
  if (address == nullptr) return false;
  if (address->sa_family == AF_INET) return true;
  if (address->sa_family != AF_INET6) return false;
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
  return !IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr);
}

std::vector<LocalAddress> local_addresses() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> list(first, ::freeifaddrs);
  std::vector<LocalAddress> found;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    if ((entry->ifa_flags & IFF_UP) == 0 || !is_usable(entry->ifa_addr)) continue;
    found.push_back(
        {entry->ifa_name, numbers_of(entry->ifa_addr), (entry->ifa_flags & IFF_LOOPBACK) != 0});
  }
  // IPv4 first: on many clusters IPv6 is there but leads nowhere.
  std::stable_partition(found.begin(), found.end(), [](const LocalAddress& address) {
    return address.address.find(':') == std::string::npos;
  });
  return found;
}

std::vector<std::string> addresses_of_host_name() {
  std::array<char, HOST_NAME_MAX + 1> name = {};
  if (::gethostname(name.data(), name.size() - 1) != 0) return {};
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* first = nullptr;
  if (::getaddrinfo(name.data(), nullptr, &hints, &first) != 0) return {};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(first, ::freeaddrinfo);
  std::vector<std::string> found;
  for (const addrinfo* entry = first; entry != nullptr; entry = entry->ai_next) {
    if (is_usable(entry->ai_addr)) found.push_back(numbers_of(entry->ai_addr));
  }
  return found;
}

Status no_such_address(const std::string& setting, const std::vector<LocalAddress>& local) {
  std::vector<std::string> there;
  for (const LocalAddress& address : local) {
    there.push_back(fmt::format("{} ({})", address.address, address.interface));
  }
  return invalid_argument(fmt::format(
      "SCR_SERVICE_INTERFACE='{}' is no interface or network of this host, which has {}",
      text::escape(setting), there.empty() ? "none" : text::join(there, ", ")));
}

}  // namespace

Result<std::string> choose_address(const std::string& setting,
                                   const std::vector<LocalAddress>& local,
                                   const std::vector<std::string>& named) {
  const auto first = [&](auto&& wanted) -> std::optional<std::string> {
    const auto found = std::find_if(local.begin(), local.end(), wanted);
    if (found == local.end()) return std::nullopt;
    return found->address;
  };
  if (!setting.empty()) {
    const auto network = parse_network(setting);
    const auto found = first([&](const LocalAddress& address) {
      return network ? network->contains(parse_address(address.address))
                     : address.interface == setting;
    });
    if (!found) return no_such_address(setting, local);
    return *found;
  }
  for (const std::string& name : named) {
    const auto found = first(
        [&](const LocalAddress& address) { return !address.loopback && address.address == name; });
    if (found) return *found;
  }
  if (const auto other = first([](const LocalAddress& address) { return !address.loopback; })) {
    return *other;
  }
  return first([](const LocalAddress&) { return true; }).value_or("127.0.0.1");
}

Result<std::string> choose_address(const std::string& setting) {
  return choose_address(setting, local_addresses(),
                        setting.empty() ? addresses_of_host_name() : std::vector<std::string>());
}

}  // namespace scr::service
