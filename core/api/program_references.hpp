// What the program of this process is linked with, known before it calls anything.
#pragma once

#include <string_view>

namespace scr {

// Whether the program, or a library that is loaded with it, uses a function of another library by
// this name. One that it looks up later, by dlsym or from an interpreter, is not found.
bool refers_to(std::string_view function);

}  // namespace scr
