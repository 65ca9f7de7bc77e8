// Linear combinations over GF(2^8): what a parity is of data, and a lost chunk of what is left.
//
// Computed by ISA-L; the inputs of an XOR and all outputs must be aligned to kBufferAlignment.
// Constant after construction, so several threads may use one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/status.hpp"

namespace scr::redundancy {

inline constexpr std::size_t kBufferAlignment = 64;

class Combination {
 public:
  Combination() = default;
  // `coefficients` has one row of `inputs` bytes for each output.
  Combination(std::size_t inputs, std::vector<unsigned char> coefficients);

  // True if each output is the XOR of all inputs: a single input is then its own result.
  bool is_xor() const { return tables_.empty(); }
  // A null input stands for zeros. At least one input is not null.
  void apply(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
             std::size_t length) const;

 private:
  std::size_t inputs_ = 0;
  std::size_t outputs_ = 0;
  std::vector<unsigned char> tables_;
};

// The code word of a stripe has `parities` parity positions, then the data positions. Which
// combination gives the chunks at positions `wanted` from those at positions `given` (as many as
// there are data)? With one parity and `all_ones` it is plain XOR, else a systematic Cauchy code.
Combination make_combination(int members, int parities, bool all_ones, std::span<const int> given,
                             std::span<const int> wanted);

}  // namespace scr::redundancy
