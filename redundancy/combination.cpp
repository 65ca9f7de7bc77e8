#include "redundancy/combination.hpp"

#include <isa-l/erasure_code.h>
#include <isa-l/raid.h>

#include <algorithm>
#include <cassert>
#include <cstring>

namespace scr::redundancy {
namespace {

constexpr std::size_t kTableSize = 32;  // of ISA-L, per coefficient
constexpr std::size_t kZeroBlock = 4096;

using Bytes = std::vector<unsigned char>;

void xor_blocks(std::span<const std::byte* const> inputs, std::byte* output, std::size_t length) {
  std::vector<void*> array;
  for (const std::byte* input : inputs) {
    // ISA-L takes sources and destination in one array of pointers; it does not write to sources.
    if (input != nullptr) array.push_back(const_cast<std::byte*>(input));
  }
  if (array.size() == 1) {
    if (array[0] != output) std::memcpy(output, array[0], length);
    return;
  }
  array.push_back(output);
  [[maybe_unused]] const int failed =
      ::xor_gen(static_cast<int>(array.size()), static_cast<int>(length), array.data());
  assert(failed == 0);
}

// Row of the generator matrix of a position: data first, as ISA-L has it.
std::size_t generator_row(int position, int members, int parities) {
  return static_cast<std::size_t>(position < parities ? members - parities + position
                                                      : position - parities);
}

// rows (r x n) times square (n x n).
Bytes multiply(const Bytes& rows, const Bytes& square, std::size_t n) {
  Bytes product(rows.size());
  for (std::size_t row = 0; row < rows.size() / n; ++row) {
    for (std::size_t column = 0; column < n; ++column) {
      unsigned char sum = 0;
      for (std::size_t i = 0; i < n; ++i) {
        sum = static_cast<unsigned char>(sum ^ ::gf_mul(rows[row * n + i], square[i * n + column]));
      }
      product[row * n + column] = sum;
    }
  }
  return product;
}

}  // namespace

Combination::Combination(std::size_t inputs, std::vector<unsigned char> coefficients)
    : inputs_(inputs), outputs_(coefficients.size() / inputs) {
  if (std::ranges::all_of(coefficients, [](unsigned char value) { return value == 1; })) return;
  tables_.resize(kTableSize * coefficients.size());
  ::ec_init_tables(static_cast<int>(inputs_), static_cast<int>(outputs_), coefficients.data(),
                   tables_.data());
}

void Combination::apply(std::span<const std::byte* const> inputs,
                        std::span<std::byte* const> outputs, std::size_t length) const {
  if (is_xor()) {
    xor_blocks(inputs, outputs[0], length);
    for (std::size_t i = 1; i < outputs.size(); ++i) std::memcpy(outputs[i], outputs[0], length);
    return;
  }
  // Blocks stay within the zeros that stand for missing inputs.
  alignas(kBufferAlignment) static const unsigned char kZeros[kZeroBlock] = {};
  const bool some_null = std::ranges::count(inputs, nullptr) != 0;
  const std::size_t block = some_null ? kZeroBlock : length;
  std::vector<unsigned char*> from(inputs_);
  std::vector<unsigned char*> to(outputs_);
  auto* tables = const_cast<unsigned char*>(tables_.data());  // only read by ISA-L, as the sources
  for (std::size_t done = 0; done < length; done += block) {
    for (std::size_t i = 0; i < inputs_; ++i) {
      const auto* source = reinterpret_cast<const unsigned char*>(inputs[i]);
      from[i] = const_cast<unsigned char*>(source == nullptr ? kZeros : source + done);
    }
    for (std::size_t i = 0; i < outputs_; ++i) {
      to[i] = reinterpret_cast<unsigned char*>(outputs[i]) + done;
    }
    ::ec_encode_data(static_cast<int>(std::min(block, length - done)), static_cast<int>(inputs_),
                     static_cast<int>(outputs_), tables, from.data(), to.data());
  }
}

Combination make_combination(int members, int parities, bool all_ones, std::span<const int> given,
                             std::span<const int> wanted) {
  const auto n = given.size();
  assert(n == static_cast<std::size_t>(members - parities));
  if (all_ones) return {n, Bytes(n * wanted.size(), 1)};
  Bytes generator(static_cast<std::size_t>(members) * n);
  ::gf_gen_cauchy1_matrix(generator.data(), members, static_cast<int>(n));
  const auto rows_of = [&](std::span<const int> positions) {
    Bytes rows;
    for (const int position : positions) {
      const auto first = generator.begin() + static_cast<std::ptrdiff_t>(
                                                 generator_row(position, members, parities) * n);
      rows.insert(rows.end(), first, first + static_cast<std::ptrdiff_t>(n));
    }
    return rows;
  };
  Bytes square = rows_of(given);
  Bytes inverse(square.size());
  [[maybe_unused]] const int singular =
      ::gf_invert_matrix(square.data(), inverse.data(), static_cast<int>(n));
  assert(singular == 0);  // any n rows of a Cauchy generator are independent
  return {n, multiply(rows_of(wanted), inverse, n)};
}

}  // namespace scr::redundancy
