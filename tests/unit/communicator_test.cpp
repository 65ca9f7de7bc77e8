// The communicators that need no MPI: the common checks, and how each reports mistakes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <tuple>

#include "core/mpi/in_process_communicator.hpp"
#include "core/mpi/single_communicator.hpp"
#include "tests/unit/communicator_checks.hpp"

namespace scr {
namespace {

using checks::Bytes;
using checks::Check;
using ::testing::AllOf;
using ::testing::HasSubstr;

class SingleProcess : public ::testing::TestWithParam<Check> {};

TEST_P(SingleProcess, Keeps) {
  SingleCommunicator comm;
  EXPECT_NO_THROW(GetParam().run(comm));
}

INSTANTIATE_TEST_SUITE_P(Contract, SingleProcess, ::testing::ValuesIn(checks::all_checks()),
                         [](const auto& test) { return std::string(test.param.name); });

class InProcess : public ::testing::TestWithParam<std::tuple<int, Check>> {};

TEST_P(InProcess, Keeps) {
  EXPECT_NO_THROW(InProcessWorld::run(std::get<0>(GetParam()), std::get<1>(GetParam()).run));
}

INSTANTIATE_TEST_SUITE_P(Contract, InProcess,
                         ::testing::Combine(::testing::Values(1, 2, 3, 5, 8, 16, 64),
                                            ::testing::ValuesIn(checks::all_checks())),
                         [](const auto& test) {
                           return std::string(std::get<1>(test.param).name) + "_on_" +
                                  std::to_string(std::get<0>(test.param));
                         });

// The text of the exception that `run` throws, or "".
std::string failure_of(int ranks, const std::function<void(Communicator&)>& body,
                       std::chrono::milliseconds timeout = InProcessWorld::kDefaultTimeout) {
  try {
    InProcessWorld::run(ranks, body, timeout);
  } catch (const std::exception& exception) {
    return exception.what();
  }
  return "";
}

// --- the single process --------------------------------------------------------------------------

TEST(SingleProcessMistakes, WaitingForAMessageThatWasNotSentThrows) {
  SingleCommunicator comm;
  Bytes buffer(4);
  EXPECT_THROW(comm.receive(buffer, 0, 3), std::logic_error);
  comm.send(buffer, 0, 3);
  EXPECT_NO_THROW(comm.receive(buffer, 0, 3)) << "the failed receive must not eat the message";
}

TEST(SingleProcessMistakes, OtherRanksDoNotExist) {
  SingleCommunicator comm;
  Bytes buffer(4);
  EXPECT_THROW(comm.send(buffer, 1, 0), std::logic_error);
  EXPECT_THROW(comm.broadcast(buffer, 1), std::logic_error);
  EXPECT_THROW(comm.sparse_exchange({{1, buffer}}), std::logic_error);
}

TEST(SingleProcessMistakes, AMessageOfTheWrongLengthThrows) {
  SingleCommunicator comm;
  Bytes four(4);
  Bytes five(5);
  comm.send(four, 0, 0);
  EXPECT_THROW(comm.receive(five, 0, 0), std::logic_error);
}

// --- in-process worlds ---------------------------------------------------------------------------

TEST(InProcessMistakes, ADeadlockNamesWhoWaitsForWhat) {
  const auto failure = failure_of(3, [](Communicator& comm) {
    Bytes buffer(8);
    comm.receive(buffer, (comm.rank() + 1) % 3, 17);
  });
  EXPECT_THAT(failure, AllOf(HasSubstr("no rank can go on"),
                             HasSubstr("rank 0 waits for a message from rank 1 with tag 17"),
                             HasSubstr("rank 2 waits for a message from rank 0 with tag 17")));
}

TEST(InProcessMistakes, AllWaitingRanksThrowRuntimeErrors) {
  std::atomic<int> thrown = 0;
  EXPECT_THROW(InProcessWorld::run(8,
                                   [&](Communicator& comm) {
                                     Bytes buffer(8);
                                     try {
                                       comm.receive(buffer, comm.rank(), 0);
                                     } catch (const std::runtime_error&) {
                                       ++thrown;
                                       throw;
                                     }
                                   }),
               std::runtime_error);
  EXPECT_EQ(thrown, 8);
}

TEST(InProcessMistakes, ARankThatReturnsEarlyIsMissedInABarrier) {
  const auto failure = failure_of(4, [](Communicator& comm) {
    if (comm.rank() != 2) comm.barrier();
  });
  EXPECT_THAT(failure,
              AllOf(HasSubstr("waits for barrier of rank(s) 2"), HasSubstr("rank 2 has returned")));
}

TEST(InProcessMistakes, TheExceptionOfARankIsThrownNotItsConsequences) {
  const auto failure = failure_of(16, [](Communicator& comm) {
    if (comm.rank() == 5) throw std::invalid_argument("disk on fire");
    comm.barrier();
  });
  EXPECT_EQ(failure, "disk on fire");
}

TEST(InProcessMistakes, AnExceptionGetsPastAPendingReceive) {
  const auto failure = failure_of(2, [](Communicator& comm) {
    Bytes buffer(8);
    Request pending = comm.start_receive(buffer, 1 - comm.rank(), 0);
    if (comm.rank() == 0) throw std::invalid_argument("disk on fire");
    pending.wait();
  });
  EXPECT_EQ(failure, "disk on fire");
}

TEST(InProcessMistakes, LargeSendsToEachOtherDeadlockAsTheyMayInMpi) {
  const auto failure = failure_of(2, [](Communicator& comm) {
    Bytes buffer(InProcessWorld::kEagerLimit + 1);
    comm.send(buffer, 1 - comm.rank(), 0);
    comm.receive(buffer, 1 - comm.rank(), 0);
  });
  EXPECT_THAT(failure, HasSubstr("waits for rank 1 to receive its message of 65537 bytes"));
}

TEST(InProcessMistakes, DifferentCollectivesAreNamed) {
  const auto failure = failure_of(2, [](Communicator& comm) {
    if (comm.rank() == 0) comm.barrier();
    if (comm.rank() == 1) comm.all_gather({});
  });
  EXPECT_THAT(failure, AllOf(HasSubstr("calls barrier"), HasSubstr("calls all_gather")));
}

TEST(InProcessMistakes, DifferentLengthsInABroadcastAreNamed) {
  const auto failure = failure_of(2, [](Communicator& comm) {
    Bytes buffer(comm.rank() == 0 ? 4 : 5);
    comm.broadcast(buffer, 0);
  });
  EXPECT_THAT(failure, AllOf(HasSubstr("4 bytes"), HasSubstr("5 bytes")));
}

TEST(InProcessMistakes, AMessageOfTheWrongLengthIsNamed) {
  const auto failure = failure_of(2, [](Communicator& comm) {
    Bytes buffer(comm.rank() == 0 ? 4 : 5);
    if (comm.rank() == 0) comm.send(buffer, 1, 9);
    if (comm.rank() == 1) comm.receive(buffer, 0, 9);
  });
  EXPECT_EQ(failure, "rank 1 expects 5 bytes from rank 0 with tag 9, but the message has 4");
}

TEST(InProcessMistakes, TheWrongLengthIsNotLostInADestructor) {
  const auto failure = failure_of(1, [](Communicator& comm) {
    Bytes four(4);
    Bytes five(5);
    comm.send(four, 0, 9);
    Request never_waited_for = comm.start_receive(five, 0, 9);
  });
  EXPECT_THAT(failure, HasSubstr("expects 5 bytes"));
}

TEST(InProcessMistakes, ARankThatNeverAnswersEndsInATimeOut) {
  std::atomic<bool> give_up = false;
  const auto failure = failure_of(
      2,
      [&](Communicator& comm) {
        try {
          if (comm.rank() == 0) comm.barrier();
        } catch (const std::exception&) {
          give_up = true;
          throw;
        }
        while (comm.rank() == 1 && !give_up) std::this_thread::yield();
      },
      std::chrono::milliseconds(50));
  EXPECT_THAT(failure, AllOf(HasSubstr("50 ms, the time limit"), HasSubstr("barrier")));
}

TEST(InProcessMistakes, APollingRankNoticesTheFailureOfOthers) {
  const auto failure = failure_of(2, [](Communicator& comm) {
    Bytes buffer(8);
    if (comm.rank() == 0) throw std::invalid_argument("disk on fire");
    Request request = comm.start_receive(buffer, 0, 0);
    while (!request.test()) std::this_thread::yield();
  });
  EXPECT_EQ(failure, "disk on fire");
}

TEST(InProcessMistakes, RanksOutsideTheCommunicatorAreRefused) {
  EXPECT_THROW(InProcessWorld::run(2, [](Communicator& comm) { comm.send({}, 2, 0); }),
               std::out_of_range);
  EXPECT_THROW(InProcessWorld::run(2,
                                   [](Communicator& comm) {
                                     comm.sparse_exchange({{-1, {}}});
                                   }),
               std::out_of_range);
}

TEST(InProcessMistakes, TwoMessagesToOneRankAreRefused) {
  EXPECT_THROW(InProcessWorld::run(2,
                                   [](Communicator& comm) {
                                     comm.sparse_exchange({{0, {}}, {0, {}}});
                                   }),
               std::logic_error);
}

}  // namespace
}  // namespace scr
