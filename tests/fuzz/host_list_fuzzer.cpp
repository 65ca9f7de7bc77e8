// Fuzzer: host lists. What is accepted holds only names that may stand in a command line, and comes
// back, whatever its order, from its short form.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/job/host_list.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace scr::job;
  const auto hosts = expand_hosts({reinterpret_cast<const char*>(data), size});
  constexpr std::size_t kEnough = 2000;  // a million names take seconds, and show nothing new
  if (!hosts.ok() || hosts->size() > kEnough) return 0;
  if (!std::ranges::all_of(*hosts, is_host_name)) std::abort();
  auto again = expand_hosts(compress_hosts(*hosts));
  if (!again.ok()) std::abort();
  Hosts sorted = *hosts;
  std::ranges::sort(sorted);
  std::ranges::sort(*again);
  if (sorted != *again) std::abort();
  if (!hosts_minus(*hosts, *hosts).empty() || hosts_in_both(*hosts, *hosts) != *hosts) std::abort();
  return 0;
}
