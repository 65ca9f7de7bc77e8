#include "core/base/checksum.hpp"

#include <fmt/format.h>
#include <isa-l/crc.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

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

#if defined(__x86_64__)
// ISA-L multiplies 16 bytes at a time unless the processor has AVX-512. This does 32, twice as
// fast, where the processor can (AMD since Zen 3, small Intel cores): it folds a long run of data
// to kFolded bytes that have the same remainder.
constexpr std::size_t kLane = 32;
constexpr std::size_t kLanes = 4;
constexpr std::size_t kFolded = kLanes * kLane;

// What brings half a 128-bit block `bytes` further on; a product of reflected numbers is one bit
// short.
constexpr long long fold_constant(std::uint64_t bytes, int half) {
  const std::uint64_t bits = 8 * bytes + static_cast<std::uint64_t>(32 * half);
  return static_cast<long long>(std::uint64_t{power(kOne >> 1U, bits)} << 1U);
}
static_assert(fold_constant(64, 1) == 0x154442bd4 && fold_constant(64, -1) == 0x1c6e41596,
              "the constants of Intel's white paper on CRC by carry-less multiplication");

bool can_fold() {
  static const bool can = __builtin_cpu_supports("avx2") != 0 &&
                          __builtin_cpu_supports("vpclmulqdq") != 0 &&
                          __builtin_cpu_supports("avx512f") == 0;
  return can;
}

// `data` has at least kFolded bytes, a multiple of it. The remainder of the result, with no
// checksum before it, is that of the data after `crc`.
__attribute__((target("avx2,pclmul,vpclmulqdq"))) void fold(std::uint32_t crc,
                                                            std::span<const std::byte> data,
                                                            std::byte* folded) {
  const auto* from = reinterpret_cast<const __m256i*>(data.data());
  const auto* end = from + data.size() / kLane;
  const __m256i constants =
      _mm256_set_epi64x(fold_constant(kFolded, -1), fold_constant(kFolded, 1),
                        fold_constant(kFolded, -1), fold_constant(kFolded, 1));
  __m256i state[kLanes];
  for (std::size_t lane = 0; lane < kLanes; ++lane) state[lane] = _mm256_loadu_si256(from + lane);
  state[0] =
      _mm256_xor_si256(state[0], _mm256_set_epi32(0, 0, 0, 0, 0, 0, 0, static_cast<int>(~crc)));
  for (from += kLanes; from != end; from += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const __m256i low = _mm256_clmulepi64_epi128(state[lane], constants, 0x00);
      const __m256i high = _mm256_clmulepi64_epi128(state[lane], constants, 0x11);
      state[lane] = _mm256_xor_si256(_mm256_xor_si256(low, high), _mm256_loadu_si256(from + lane));
    }
  }
  auto* to = reinterpret_cast<__m256i*>(folded);
  for (std::size_t lane = 0; lane < kLanes; ++lane) _mm256_storeu_si256(to + lane, state[lane]);
}
#endif

std::uint32_t isal_crc32(std::uint32_t crc, std::span<const std::byte> data) {
  return ::crc32_gzip_refl(crc, reinterpret_cast<const unsigned char*>(data.data()), data.size());
}

}  // namespace

void Crc32::update(std::span<const std::byte> data) {
#if defined(__x86_64__)
  if (data.size() >= 4 * kFolded && can_fold()) {
    std::byte folded[kFolded];
    const std::size_t whole = data.size() / kFolded * kFolded;
    fold(value_, data.first(whole), folded);
    value_ = isal_crc32(0xFFFFFFFFU, folded);  // inverted: nothing comes before
    data = data.subspan(whole);
  }
#endif
  if (!data.empty()) value_ = isal_crc32(value_, data);
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
