// scr_rebuild_rs: makes files of lost ranks from RS data in the prefix directory.
#include "tools/rebuild_command.hpp"

int main(int argc, char** argv) {
  return scr::tools::rebuild_main(argc, argv, scr::redundancy::Scheme::kReedSolomon,
                                  "scr_rebuild_rs");
}
