// scr_rebuild_xor: makes files of lost ranks from XOR data in the prefix directory.
#include "tools/rebuild_command.hpp"

int main(int argc, char** argv) {
  return scr::tools::rebuild_main(argc, argv, scr::redundancy::Scheme::kXor, "scr_rebuild_xor");
}
