// Fuzzes markers, as they are and behind a checksum that is right: what is accepted has a path that
// stays inside the prefix directory and texts without control characters, and comes back from its
// own bytes.
#include <algorithm>
#include <cstdlib>
#include <string>

#include "core/base/checksum.hpp"
#include "core/base/path.hpp"
#include "core/routing/marker.hpp"

namespace {

void check(const scr::Result<scr::routing::Marker>& marker) {
  if (!marker.ok()) return;
  if (!scr::safe_relative_path(marker->file).ok()) std::abort();
  const std::string texts = marker->job + marker->host + marker->service;
  if (std::any_of(texts.begin(), texts.end(),
                  [](char c) { return static_cast<unsigned char>(c) < 0x20; })) {
    std::abort();
  }
  const auto bytes = scr::routing::encode(*marker);
  if (!bytes.ok() || bytes->size() != scr::routing::kMarkerSize) std::abort();
  const auto again = scr::routing::decode(std::as_bytes(std::span(*bytes)));
  if (!again.ok() || *again != *marker) std::abort();
}

// The input as the text of a marker.
std::string marker_with(std::span<const std::uint8_t> body) {
  constexpr std::size_t kCrcLine = 17;
  std::string text("\211HDF\r\n\032\n\377\n", 10);
  text.append(body.begin(), body.end());
  text.resize(scr::routing::kMarkerSize - kCrcLine, '\n');
  return text + "CRC32=" + scr::crc32_to_text(scr::crc32(std::as_bytes(std::span(text)))) + "\n";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  check(scr::routing::decode(std::as_bytes(std::span(data, size))));
  const std::string text = marker_with(std::span(data, size));
  check(scr::routing::decode(std::as_bytes(std::span(text))));
  return 0;
}
