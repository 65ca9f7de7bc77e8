// The common communicator checks on MPI, and what only MPI has: real nodes, pieces of long
// messages, the number of messages an exchange costs.
//
//   mpirun -n P communicator_mpi_test [--seed S] [--expect-nodes N --per-node K]
//
// With --expect-nodes, P must be N * K, and the ranks must sit on N hosts of different names, K
// each. Exits with 1 if a check fails on any rank and says which.
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <random>
#include <set>
#include <stdexcept>
#include <string>

#include "core/mpi/mpi_communicator.hpp"
#include "tests/unit/communicator_checks.hpp"

namespace scr {
namespace {

using checks::Bytes;
using checks::pair_seed;
using checks::pattern;

struct Options {
  std::uint64_t seed = std::random_device()();
  int nodes = 0;
  int per_node = 0;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    if (i + 1 == argc) throw std::invalid_argument(name + " needs a number");
    const unsigned long long value = std::stoull(argv[i + 1]);
    if (name == "--seed") {
      options.seed = value;
    } else if (name == "--expect-nodes") {
      options.nodes = static_cast<int>(value);
    } else if (name == "--per-node") {
      options.per_node = static_cast<int>(value);
    } else {
      throw std::invalid_argument("unknown option " + name);
    }
  }
  return options;
}

void run_check(MpiCommunicator& comm, const char* name, auto check) {
  comm.barrier();
  const double start = PMPI_Wtime();
  check(comm);
  comm.barrier();
  if (comm.rank() == 0) std::printf("ok %-50s %7.3f s\n", name, PMPI_Wtime() - start);
}

// --- pieces --------------------------------------------------------------------------------------

class PieceLimit {
 public:
  explicit PieceLimit(std::size_t bytes) : before_(MpiCommunicator::set_piece_limit(bytes)) {}
  ~PieceLimit() { MpiCommunicator::set_piece_limit(before_); }
  PieceLimit(const PieceLimit&) = delete;
  PieceLimit& operator=(const PieceLimit&) = delete;

 private:
  std::size_t before_;
};

// Lengths around the multiples of a limit of seven bytes, through every function that moves bytes.
void long_messages_go_in_pieces(Communicator& comm) {
  const PieceLimit limit(7);
  for (const std::size_t length : {0, 1, 6, 7, 8, 13, 14, 15, 21, 1000}) {
    const int to = checks::right_of(comm);
    const int from = checks::left_of(comm);
    const Bytes sent = pattern(pair_seed(comm.rank(), to), length);
    const Bytes expected = pattern(pair_seed(from, comm.rank()), length);
    const std::uint64_t before = MpiCommunicator::messages_sent();
    Bytes received(length);
    Request receive = comm.start_receive(received, from, 0);
    Request send = comm.start_send(sent, to, 0);
    receive.wait();
    send.wait();
    CHECK_THAT(received == expected);
    const std::size_t pieces = length == 0 ? 1 : (length + 6) / 7;
    CHECK_THAT(MpiCommunicator::messages_sent() - before == pieces);

    const auto exchanged = comm.sparse_exchange({{to, sent}});
    CHECK_THAT(exchanged.size() == 1 && exchanged[0].rank == from);
    CHECK_THAT(exchanged[0].data == expected);
    checks::gather_blocks(comm, length);
  }
  checks::reductions_reach_every_rank(comm);
  checks::consecutive_exchanges_do_not_mix(comm);
}

// --- costs ---------------------------------------------------------------------------------------

void an_exchange_costs_one_message_per_partner(Communicator& comm) {
  std::set<int> partners = {checks::left_of(comm), checks::right_of(comm)};
  std::vector<RankMessage> messages;
  for (const int to : partners) messages.push_back({to, pattern(1, 100)});
  partners.erase(comm.rank());
  const std::uint64_t before = MpiCommunicator::messages_sent();
  comm.sparse_exchange(std::move(messages));
  CHECK_THAT(MpiCommunicator::messages_sent() - before == partners.size());
  comm.sparse_exchange({});
  CHECK_THAT(MpiCommunicator::messages_sent() - before == partners.size());
}

// All ranks on one node: a rank tells its neighbour, rank 0 tells the home, and that is all.
void grouping_equal_names_costs_few_messages(Communicator& comm) {
  const std::uint64_t before = MpiCommunicator::messages_sent();
  group_by_string(comm, "the only node");
  CHECK_THAT(MpiCommunicator::messages_sent() - before <= 3);
}

// --- life ----------------------------------------------------------------------------------------

int attribute_copies = 0;
int copy_attribute(MPI_Comm, int, void*, void*, void*, int* flag) {
  ++attribute_copies;
  *flag = 0;
  return MPI_SUCCESS;
}

// A communicator with attributes, another error handler and ranks of its own order.
void a_duplicate_leaves_the_application_alone(Communicator& comm) {
  int key = MPI_KEYVAL_INVALID;
  MPI_Comm theirs = MPI_COMM_NULL;
  PMPI_Comm_split(MPI_COMM_WORLD, 0, -comm.rank(), &theirs);
  PMPI_Comm_set_errhandler(theirs, MPI_ERRORS_RETURN);
  PMPI_Comm_create_keyval(copy_attribute, MPI_COMM_NULL_DELETE_FN, &key, nullptr);
  PMPI_Comm_set_attr(theirs, key, nullptr);
  {
    const auto ours = MpiCommunicator::duplicate_of(theirs);
    CHECK_THAT(ours->rank() == comm.size() - 1 - comm.rank() && ours->size() == comm.size());
    CHECK_THAT(attribute_copies == 0);
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    PMPI_Comm_get_errhandler(ours->native(), &handler);
    CHECK_THAT(handler == MPI_ERRORS_ARE_FATAL);
    checks::messages_go_round_a_ring(*ours);
  }
  PMPI_Comm_free_keyval(&key);
  PMPI_Comm_free(&theirs);
}

// --- nodes ---------------------------------------------------------------------------------------

std::string host_name() {
  char name[256] = "";
  if (gethostname(name, sizeof(name) - 1) != 0) throw std::runtime_error("gethostname failed");
  return name;
}

std::multiset<std::string> names_in(Communicator& comm, const std::string& name) {
  char block[256] = "";
  std::strncpy(block, name.c_str(), sizeof(block) - 1);
  const Bytes all = comm.all_gather(std::as_bytes(std::span(block)));
  std::multiset<std::string> names;
  for (std::size_t at = 0; at < all.size(); at += sizeof(block)) {
    names.insert(reinterpret_cast<const char*>(all.data() + at));
  }
  return names;
}

void node_communicators_follow_the_host_names(Communicator& comm, const Options& options) {
  const std::string host = host_name();
  const auto nodes = make_node_communicators(comm, host);
  const auto together = names_in(*nodes.node, host);
  CHECK_THAT(together.count(host) == together.size());
  const auto across = names_in(*nodes.across, host);
  CHECK_THAT(std::set(across.begin(), across.end()).size() == across.size());
  const auto everywhere = names_in(comm, host);
  CHECK_THAT(std::set(everywhere.begin(), everywhere.end()).size() ==
             static_cast<std::size_t>(nodes.node_count));
  CHECK_THAT(everywhere.count(host) == together.size());
  if (options.nodes > 0) {
    CHECK_THAT(nodes.node_count == options.nodes && nodes.across->size() == options.nodes);
  }
  if (options.per_node > 0) CHECK_THAT(nodes.node->size() == options.per_node);
}

// --------------------------------------------------------------------------------------------------

void run_all(MpiCommunicator& comm, const Options& options) {
  for (const checks::Check& check : checks::all_checks()) run_check(comm, check.name, check.run);
  {
    const PieceLimit limit(4096);
    for (const checks::Check& check : checks::all_checks()) {
      run_check(comm, (std::string(check.name) + " in pieces").c_str(), check.run);
    }
  }
  run_check(comm, "long_messages_go_in_pieces", long_messages_go_in_pieces);
  run_check(comm, "an_exchange_costs_one_message_per_partner",
            an_exchange_costs_one_message_per_partner);
  run_check(comm, "grouping_equal_names_costs_few_messages",
            grouping_equal_names_costs_few_messages);
  run_check(comm, "a_duplicate_leaves_the_application_alone",
            a_duplicate_leaves_the_application_alone);
  run_check(comm, "random_exchanges_with_the_printed_seed",
            [&](Communicator& world) { checks::random_exchanges(world, options.seed, 50); });
  run_check(comm, "node_communicators_follow_the_host_names",
            [&](Communicator& world) { node_communicators_follow_the_host_names(world, options); });
}

}  // namespace
}  // namespace scr

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  std::unique_ptr<scr::MpiCommunicator> outlives_mpi;
  try {
    scr::Options options = scr::parse(argc, argv);
    const auto comm = scr::MpiCommunicator::duplicate_of(MPI_COMM_WORLD);
    comm->broadcast(std::as_writable_bytes(std::span(&options.seed, 1)), 0);
    if (comm->rank() == 0) {
      std::printf("communicator checks on %d ranks, seed %llu\n", comm->size(),
                  static_cast<unsigned long long>(options.seed));
    }
    scr::run_all(*comm, options);
    if (comm->rank() == 0) std::printf("all ok on %d ranks\n", comm->size());
    outlives_mpi = scr::MpiCommunicator::duplicate_of(MPI_COMM_WORLD);
  } catch (const std::exception& failure) {
    // The other ranks may wait for this one, so nothing gentler than an abort ends them all.
    std::fprintf(stderr, "FAILED: %s\n", failure.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  outlives_mpi.reset();  // must not touch MPI any more
  return 0;
}
