// Sizes in bytes as people write them: "4096", "4k", "10MB", "1.5GiB".
//
// Units are powers of 1024, as always in SCR: K, KB and KiB are 1024 bytes, M is 1024 K, and so on
// with G, T, P, E; upper and lower case are alike, B is a byte, and no unit means bytes. Pure
// functions; safe from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/status.hpp"

namespace scr {

// A fraction needs a unit above B ("1.5GB") and is rounded down to whole bytes; it may have up to
// nine digits. Anything else (a sign, other text, 2^64 or more) is kInvalidArgument with a message
// that quotes the text.
Result<std::uint64_t> parse_byte_size(std::string_view text);

// The exact form with the largest unit that divides the size: 1073741824 is "1GB", 1000 is "1000".
// parse_byte_size reads it back.
std::string format_byte_size(std::uint64_t bytes);

// For people, rounded, in powers of 1000: "512 B", "14.2 kB", "3.0 GB".
std::string approximate_byte_size(double bytes);

}  // namespace scr
