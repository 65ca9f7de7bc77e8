#include <fmt/format.h>

#include <algorithm>

#include "core/base/checksum.hpp"
#include "core/base/hash_file.hpp"
#include "redundancy/header.hpp"
#include "redundancy/member_io.hpp"
#include "redundancy/new_member.hpp"
#include "redundancy/pass.hpp"
#include "redundancy/peers.hpp"
#include "redundancy/plan.hpp"
#include "redundancy/redundancy.hpp"
#include "redundancy/survey.hpp"

namespace scr::redundancy {
namespace {

constexpr std::string_view kDamaged = "DAMAGED";

// One process's part. An attempt takes the survivors at their word, and verifies them as it reads them; if
// one turns out to be damaged it is lost as well, and the next attempt does without it. So there are at
// most as many attempts as members.
class Rebuilder {
 public:
  Rebuilder(Communicator& comm, FileSystem& fs, const RedundancySet& set,
            const std::vector<int>& hosts, std::vector<HostedMember>& mine, bool verify_all,
            RegisterFiles register_files, void* context, std::size_t piece_size)
      : comm_(comm), fs_(fs), set_(set), hosts_(hosts), mine_(mine), verify_all_(verify_all),
        register_files_(register_files), context_(context), piece_size_(piece_size),
        peers_(comm, hosts) {}

  Result<RebuildResult> run() {
    for (const HostedMember& member : mine_) inspected_.push_back(inspect(fs_, set_, member));
    while (true) {
      SCR_ASSIGN_OR_RETURN(Survey found, survey(peers_, set_, inspected_));
      if (!found.any_lost() && !verify_all_) return result_of(found);
      SCR_ASSIGN_OR_RETURN(const bool done, attempt(found));
      if (done) return result_of(found);
    }
  }

 private:
  // True: everything is whole. False: a survivor was found damaged.
  Result<bool> attempt(const Survey& found);
  void open_survivor(const Survey& found, const HostedMember& member, LocalMember& local);
  Status verify_survivor(const Survey& found, LocalMember& local, bool read_files, bool read_payload);
  Result<bool> agree(const std::vector<std::pair<int, Status>>& damages, const Status& failure);
  RebuildResult result_of(const Survey& found) const;

  Communicator& comm_;
  FileSystem& fs_;
  const RedundancySet& set_;
  const std::vector<int>& hosts_;
  std::vector<HostedMember>& mine_;
  bool verify_all_;
  RegisterFiles register_files_;
  void* context_;
  std::size_t piece_size_;
  Peers peers_;
  std::vector<Inspected> inspected_;  // as mine_
};

}  // namespace
}  // namespace scr::redundancy
