// Fuzzes the redundancy descriptor of a filemap: what is accepted has a directory that stays inside
// the job's, at least one set, and comes back from its own hash.
#include "redundancy/stored_descriptor.hpp"

#include <cstdlib>

#include "core/base/path.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto hash = scr::Hash::unpack(std::as_bytes(std::span(data, size)));
  if (!hash.ok()) return 0;
  const auto descriptor = scr::StoredDescriptor::from_hash(*hash);
  if (!descriptor.ok()) return 0;
  if (!scr::safe_relative_path(descriptor->directory).ok()) std::abort();
  if (descriptor->sets.empty()) std::abort();
  // A rank of each set is asked for its files, as a rebuild does.
  for (const auto& set : descriptor->sets) {
    (void)scr::member_files({}, *descriptor, set, set.members.front().rank);
  }
  const auto again = scr::StoredDescriptor::from_hash(descriptor->to_hash());
  if (!again.ok() || !(again->to_hash() == descriptor->to_hash())) std::abort();
  return 0;
}
