// Fuzzer: the file that ROMIO_HINTS names. Keys and values are single words, as MPI_Info takes
// them, and the file that they make is read back the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/mpiio/hints.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto hints = scr::mpiio::parse_hints({reinterpret_cast<const char*>(data), size});
  std::string text;
  for (const auto& [key, value] : hints) {
    for (const std::string& word : {key, value}) {
      constexpr std::string_view kNotInAWord(" \t\n\v\f\r\0", 7);
      if (word.empty() || word.find_first_of(kNotInAWord) != std::string::npos) std::abort();
    }
    text += key + " " + value + "\n";
  }
  if (scr::mpiio::parse_hints(text) != hints) std::abort();
  return 0;
}
