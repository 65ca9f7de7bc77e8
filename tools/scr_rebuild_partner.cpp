// scr_rebuild_partner: makes files of lost ranks from PARTNER data in the prefix directory.
#include "tools/rebuild_command.hpp"

int main(int argc, char** argv) {
  return scr::tools::rebuild_main(argc, argv, scr::redundancy::Scheme::kPartner,
                                  "scr_rebuild_partner");
}
