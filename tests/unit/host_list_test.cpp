// Host lists as batch systems write them, and as nobody should.
#include "core/job/host_list.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace scr::job {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Hosts expanded(std::string_view list) {
  const auto hosts = expand_hosts(list);
  EXPECT_TRUE(hosts.ok()) << hosts.status().message();
  return hosts.ok() ? *hosts : Hosts();
}

std::string compressed(const Hosts& hosts) { return compress_hosts(hosts); }

TEST(HostList, ExpandsTheExampleOfTheManual) {
  EXPECT_THAT(expanded("atlas[3,5-7,9-11]"),
              ElementsAre("atlas3", "atlas5", "atlas6", "atlas7", "atlas9", "atlas10", "atlas11"));
}

TEST(HostList, ExpandKeepsOrderAndDuplicates) {
  EXPECT_THAT(expanded("n[3,1-2,3],n1"), ElementsAre("n3", "n1", "n2", "n3", "n1"));
}

TEST(HostList, KeepsLeadingZeros) {
  EXPECT_THAT(expanded("n[08-11]"), ElementsAre("n08", "n09", "n10", "n11"));
  EXPECT_THAT(expanded("n[099-100]"), ElementsAre("n099", "n100"));
  EXPECT_EQ(compressed({"n08", "n09", "n10", "n11"}), "n[08-11]");
  EXPECT_EQ(compressed({"n8", "n9", "n10"}), "n[8-10]");
  // n1 and n01 are two hosts.
  EXPECT_EQ(compressed({"n1", "n01", "n2", "n02"}), "n[1-2],n[01-02]");
}

TEST(HostList, SeveralPrefixesAndSuffixes) {
  EXPECT_THAT(expanded("a[1-2]-ib,zeus[3-4].site.org,login"),
              ElementsAre("a1-ib", "a2-ib", "zeus3.site.org", "zeus4.site.org", "login"));
  EXPECT_EQ(compressed({"a1-ib", "zeus3.site.org", "a2-ib", "login", "zeus4.site.org"}),
            "a[1-2]-ib,zeus[3-4].site.org,login");
}

TEST(HostList, SeveralBracketsGiveEveryCombination) {
  EXPECT_THAT(expanded("r[0-1]n[1-2]"), ElementsAre("r0n1", "r0n2", "r1n1", "r1n2"));
  EXPECT_EQ(compressed(expanded("r[0-1]n[1-2]")), "r0n[1-2],r1n[1-2]");
}

TEST(HostList, CommasAndBlanksSeparate) {
  EXPECT_THAT(expanded("a1, a2\nb3\n"), ElementsAre("a1", "a2", "b3"));
  EXPECT_THAT(expanded(""), IsEmpty());
  EXPECT_THAT(expanded(" ,, "), IsEmpty());
}

TEST(HostList, CompressSortsByNumberAndKeepsDuplicates) {
  EXPECT_EQ(compressed({"n10", "n9", "n2", "n9"}), "n[2,9,9-10]");
  EXPECT_EQ(compressed({"n5"}), "n5");
  EXPECT_EQ(compressed({"login", "login"}), "login,login");
  EXPECT_EQ(compressed({}), "");
}

TEST(HostList, WhatIsCompressedExpandsToTheSameHosts) {
  for (const Hosts& hosts : {Hosts{"x1y2", "x1y3", "x01", "x1", "x001", "x", "x9", "x10"},
                             Hosts{"a123456789012345678901234567890", "a5.b6", "a6.b6"},
                             Hosts{"7", "8", "007", "_", "a-1", "a-2"}}) {
    EXPECT_THAT(expanded(compress_hosts(hosts)), ::testing::UnorderedElementsAreArray(hosts))
        << compress_hosts(hosts);
  }
}

TEST(HostList, MinusAndIntersectionOfTheManual) {
  const Hosts one = expanded("atlas[3,5-7,9-11]");
  const Hosts other = expanded("atlas[5,7,20]");
  EXPECT_EQ(compress_hosts(hosts_minus(one, other)), "atlas[3,6,9-11]");
  EXPECT_EQ(compress_hosts(hosts_in_both(one, other)), "atlas[5,7]");
}

TEST(HostList, FindsAHostWithOrWithoutItsDomain) {
  const Hosts hosts = {"n1.site.org", "n2"};
  EXPECT_EQ(name_in_list(hosts, "n1"), "n1.site.org");
  EXPECT_EQ(name_in_list(hosts, "n2.site.org"), "n2");
  EXPECT_EQ(name_in_list(hosts, "n1.other.org"), "");
  EXPECT_EQ(name_in_list(hosts, "n"), "");
}

TEST(HostList, AnAddressHasNoDomain) {
  const Hosts hosts = {"10.0.0.1", "n2"};
  EXPECT_EQ(name_in_list(hosts, "10.0.0.1"), "10.0.0.1");
  EXPECT_EQ(name_in_list(hosts, "10.0.0.2"), "");
  EXPECT_EQ(name_in_list(hosts, "10"), "");
}

TEST(HostList, LocalhostAndLoopbackAreTheHostThatAsks) {
  for (const std::string name :
       {"n1", "n1.site.org", "localhost", "localhost.localdomain", "127.0.0.1", "127.0.1.1"}) {
    EXPECT_EQ(own_name_in_list(Hosts{"n2", name}, "n1"), name);
  }
  for (const std::string name : {"n11", "10.0.0.1", "localhosts", "127.site.org"}) {
    EXPECT_EQ(own_name_in_list(Hosts{name}, "n1"), "") << name;
  }
  EXPECT_EQ(own_name_in_list(Hosts{"localhost", "n1"}, "n1"), "n1");
  EXPECT_EQ(name_in_list(Hosts{"localhost"}, "n1"), "");
}

struct Hostile {
  std::string list;
  const char* message;
};

std::string repeated(std::string_view text, std::size_t times) {
  std::string result;
  for (std::size_t i = 0; i < times; ++i) result += text;
  return result;
}

class HostileHostList : public ::testing::TestWithParam<Hostile> {};

TEST_P(HostileHostList, IsRefusedWithItsReason) {
  const auto hosts = expand_hosts(GetParam().list);
  ASSERT_FALSE(hosts.ok());
  EXPECT_EQ(hosts.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(hosts.status().message()), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    All, HostileHostList,
    ::testing::Values(
        Hostile{"n[1-1000000000]", "more than 1000000 hosts"},
        Hostile{"n[0-999999]x[0-999999]", "more than 1000000 hosts"},
        Hostile{"n[0-999999],m1", "more than 1000000 hosts"},
        Hostile{"a[0-9]b[0-9]c[0-9]d[0-9]e[0-9]f[0-9]g[0-9]", "more than 1000000 hosts"},
        Hostile{"n[0-18446744073709551615]", "a number is too long"},
        Hostile{"n[5-3]", "goes backwards"}, Hostile{"n[1", "not closed"},
        Hostile{"n1]", "not opened"}, Hostile{"n[[1]]", "inside another"},
        Hostile{"n[]", "no number"}, Hostile{"n[1,]", "no number"}, Hostile{"n[a-b]", "no number"},
        Hostile{"n[1--3]", "no number"}, Hostile{"n[1-3-5]", "no number"},
        Hostile{"n[9-010]", "different leading zeros"}, Hostile{"-oProxyCommand=x", "only letters"},
        Hostile{"-x", "cannot start with '-'"}, Hostile{"-[1-2]", "cannot start with '-'"},
        Hostile{"n1;reboot", "only letters"}, Hostile{"$(reboot)", "only letters"},
        Hostile{"n\033[1]", "only letters"}, Hostile{"a/b", "only letters"},
        // Gigabytes of names, a bracket for each kilobyte of stack, a name that is not the last.
        Hostile{std::string(60'000, 'x') + "[1-1000000]", "a name is too long"},
        Hostile{repeated("[1]", 43'000), "a name is too long"},
        Hostile{std::string(250, 'x') + "[100000000,1]", "a name is too long"}));

TEST(HostList, TooLongANameIsRefused) {
  std::string name(255, 'a');
  EXPECT_TRUE(expand_hosts(name).ok());
  EXPECT_TRUE(expand_hosts(std::string(254, 'a') + "[1-9]").ok());
  EXPECT_TRUE(expand_hosts(repeated("[1]", 255)).ok());
  EXPECT_FALSE(expand_hosts(std::string(254, 'a') + "[1-10]").ok());
  EXPECT_FALSE(expand_hosts(std::string(254, 'a') + "[01-02]").ok());
  name += "[1-2]";
  EXPECT_FALSE(expand_hosts(name).ok());
  EXPECT_FALSE(expand_hosts(std::string(256, 'a')).ok());
}

TEST(HostList, TheLargestListIsStillTaken) {
  EXPECT_EQ(expanded("n[0-999999]").size(), kMostHosts);
}

}  // namespace
}  // namespace scr::job
