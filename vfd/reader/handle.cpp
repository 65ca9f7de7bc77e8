#include "vfd/reader/handle.hpp"

#include <fmt/format.h>

#include "core/base/text.hpp"

namespace scr::vfd {
namespace {

struct Messages {
  std::string outermost;
  std::string innermost;
};

herr_t collect(unsigned number, const H5E_error2_t* error, void* data) {
  auto& messages = *static_cast<Messages*>(data);
  const std::string text = error->desc != nullptr ? error->desc : "";
  if (number == 0) messages.outermost = text;
  if (!text.empty()) messages.innermost = text;
  return 0;
}

// Of the last call that failed. The stack itself does not last: every call, also the one that
// closes an id on the way out, clears it.
Messages& last_failure() {
  static Messages messages;
  return messages;
}

herr_t remember(hid_t stack, void*) {
  last_failure() = {};
  H5Ewalk2(stack, H5E_WALK_DOWNWARD, collect, &last_failure());
  return 0;
}

}  // namespace

void remember_errors() { H5Eset_auto2(H5E_DEFAULT, remember, nullptr); }

std::string take_error() {
  const Messages messages = std::exchange(last_failure(), {});
  if (messages.innermost.empty()) return "HDF5 does not say why";
  if (messages.outermost == messages.innermost) return text::escape(messages.innermost);
  return text::escape(fmt::format("{}: {}", messages.outermost, messages.innermost));
}

}  // namespace scr::vfd
