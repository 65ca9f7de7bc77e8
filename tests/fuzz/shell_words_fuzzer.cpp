// Fuzzes words for a shell: whatever words there are (the input cut at its NUL bytes), quoted for a
// shell and read again they are the same; and any text is read or refused.
#include <cstdlib>
#include <string_view>

#include "core/job/process.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  scr::job::Words words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\0', at), text.size());
    words.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  const auto again = scr::job::split_words(scr::job::shell_quoted(words));
  if (!again.ok() || *again != words) std::abort();
  if (const auto read = scr::job::split_words(text); read.ok()) {
    const auto same = scr::job::split_words(scr::job::shell_quoted(*read));
    if (!same.ok() || *same != *read) std::abort();
  }
  return 0;
}
