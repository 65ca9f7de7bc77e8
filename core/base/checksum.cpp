#include "core/base/checksum.hpp"

#include <fmt/format.h>
#include <isa-l/crc.h>

#include <charconv>

#include "core/base/text.hpp"

namespace scr {
namespace {

// A CRC is a polynomial over GF(2) modulo the one of CRC-32. In the reflected form used here, the
// highest bit is the coefficient of x^0 and the lowest that of x^31.
constexpr std::uint32_t kPolynomial = 0xEDB88320U;
constexpr std::uint32_t kOne = 0x80000000U;     // x^0
constexpr std::uint32_t kOneByte = kOne >> 8U;  // x^8: what one more byte of data multiplies by

constexpr std::uint32_t times_x(std::uint32_t a) {
  return (a >> 1U) ^ ((a & 1U) != 0 ? kPolynomial : 0);
}

constexpr std::uint32_t multiply(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (std::uint32_t bit = kOne; bit != 0; bit >>= 1U) {
    if ((a & bit) != 0) product ^= b;
    b = times_x(b);
  }
  return product;
}

constexpr std::uint32_t power(std::uint32_t base, std::uint64_t exponent) {
  std::uint32_t result = kOne;
  for (; exponent != 0; exponent >>= 1U) {
    if ((exponent & 1U) != 0) result = multiply(result, base);
    base = multiply(base, base);
  }
  return result;
}

}  // namespace

void Crc32::update(std::span<const std::byte> data) {
  if (data.empty()) return;
  value_ =
      ::crc32_gzip_refl(value_, reinterpret_cast<const unsigned char*>(data.data()), data.size());
}

std::uint32_t crc32(std::span<const std::byte> data) {
  Crc32 crc;
  crc.update(data);
  return crc.value();
}

// The inversions before and after a CRC cancel out between the two pieces, so that only A's
// checksum has to be moved past B.
std::uint32_t crc32_combine(std::uint32_t crc_a, std::uint32_t crc_b, std::uint64_t length_b) {
  return multiply(crc_a, power(kOneByte, length_b)) ^ crc_b;
}

std::string crc32_to_text(std::uint32_t crc) { return fmt::format("0x{:08x}", crc); }

Result<std::uint32_t> crc32_from_text(std::string_view text) {
  const Status bad =
      corrupt(fmt::format("checksum '{}' is not of the form 0x1b39e4e4", text::escape(text)));
  if (!text.starts_with("0x") || text.size() < 3 || text.size() > 10) return bad;
  std::uint32_t crc = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + 2, end, crc, 16);
  if (error != std::errc() || stop != end) return bad;
  return crc;
}

}  // namespace scr
