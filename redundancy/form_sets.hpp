// Set formation: divides the ranks of a run into redundancy sets (SCR manual §7.3, docs/design.md).
#pragma once

#include <string>
#include <vector>

#include "core/mpi/communicator.hpp"
#include "redundancy/scheme.hpp"

namespace scr::redundancy {

struct SetRequest {
  Scheme scheme = Scheme::kXor;
  int set_size = 8;
  int failures = 2;  // RS only
  int hop_distance = 1;
  std::string
      failure_group{};  // ranks with equal names are likely to fail together (the node's name)
  std::string host{};
};

// Sizes of the sets over so many failure groups with one rank each, and the losses each set bears.
struct SetSizes {
  int smallest = 1;
  int largest = 1;
  int failures = 0;
};
SetSizes set_sizes(const SetRequest& request, int groups);

// The sets this rank takes part in: first the one that protects its own files, then those in which
// it is a guest. Collective over `world`. Ranks of one failure group never meet in a set; sets have
// near-equal size near set_size; no rank is alone while another failure group exists. With a single
// failure group every rank gets a set of its own with scheme SINGLE. The cost per rank does not
// grow with the number of ranks, but by logarithms.
std::vector<RedundancySet> form_sets(Communicator& world, const SetRequest& request);

}  // namespace scr::redundancy
