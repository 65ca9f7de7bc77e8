// Ending the process at a halt condition, past destructors and exit handlers: those of the program
// do not expect it in the middle of their work.
#pragma once

namespace scr {

// Writes what the program has in buffers of stdio first, as exit() would; ends MPI; does not
// return.
[[noreturn]] void end_process();

}  // namespace scr
