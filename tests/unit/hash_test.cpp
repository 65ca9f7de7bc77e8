// Hash objects as in the SCR manual §3: elements, key/value helpers, merge, sort, format functions,
// text.
#include "core/base/hash.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace scr {
namespace {

std::vector<std::string> keys_of(const Hash& hash) {
  std::vector<std::string> keys;
  for (const auto& element : hash.elements()) keys.push_back(element.key);
  return keys;
}

// The example tree of the SCR manual §3.1.
Hash manual_example() {
  Hash hash;
  Hash& rank0 = hash.set_kv("RANK", "0");
  rank0.set_value("FILES", 2);
  rank0.set_kv("FILE", "foo_0.txt").set_value("SIZE", 1024);
  rank0.set_kv("FILE", "foo_0.txt").set_value("COMPLETE", 1);
  rank0.set_kv("FILE", "bar_0.txt").set_value("SIZE", 2048);
  rank0.set_kv("FILE", "bar_0.txt").set_value("COMPLETE", 1);
  Hash& rank1 = hash.set_kv("RANK", "1");
  rank1.set_value("FILES", 1);
  rank1.set_kv("FILE", "foo_1.txt").set_value("SIZE", 3072);
  rank1.set_kv("FILE", "foo_1.txt").set_value("COMPLETE", 1);
  return hash;
}

TEST(Hash, StartsEmptyAndFindsNothing) {
  Hash hash;
  EXPECT_TRUE(hash.empty());
  EXPECT_EQ(hash.get("x"), nullptr);
  hash.unset("x");
  EXPECT_EQ(hash.size(), 0u);
}

TEST(Hash, SetReplacesTheOldValue) {
  Hash hash;
  hash.set("key", Hash()).at("old");
  Hash value;
  value.at("new");
  hash.set("key", std::move(value));
  EXPECT_EQ(hash.size(), 1u);
  EXPECT_TRUE(hash.get("key")->contains("new"));
  EXPECT_FALSE(hash.get("key")->contains("old"));
}

TEST(Hash, KeepsTheOrderOfInsertionAlsoWithAnIndex) {
  Hash hash;
  std::vector<std::string> expected;
  for (int i = 99; i >= 0; --i) {
    hash.at(std::to_string(i));
    expected.push_back(std::to_string(i));
  }
  EXPECT_EQ(keys_of(hash), expected);
}

TEST(Hash, FindsAndRemovesAmongManyKeys) {
  Hash hash;
  for (int i = 0; i < 5000; ++i) hash.at("key" + std::to_string(i)).set_value("V", i);
  for (int i = 0; i < 5000; i += 2) hash.unset("key" + std::to_string(i));
  EXPECT_EQ(hash.size(), 2500u);
  EXPECT_EQ(hash.get("key4998"), nullptr);
  EXPECT_EQ(hash.get("key4999")->value("V"), "4999");
  hash.at("key0").set_value("V", "again");
  EXPECT_EQ(hash.get("key0")->value("V"), "again");
  for (int i = 0; i < 5000; ++i) hash.unset("key" + std::to_string(i));
  EXPECT_TRUE(hash.empty());
}

// With a few hundred keys that come and go, runs of the index overlap in all ways.
TEST(Hash, BehavesAsAListOfKeysUnderRandomChanges) {
  std::mt19937 random(7);
  Hash hash;
  std::vector<std::string> expected;
  for (int change = 0; change < 20'000; ++change) {
    const std::string key = std::to_string(random() % 300);
    const auto there = std::find(expected.begin(), expected.end(), key);
    ASSERT_EQ(hash.contains(key), there != expected.end()) << key;
    if (there != expected.end()) {
      hash.unset(key);
      expected.erase(there);
    } else if (random() % 4 != 0) {
      hash.at(key);
      expected.push_back(key);
    }
    ASSERT_EQ(hash.size(), expected.size());
    if (change % 100 == 0) {
      ASSERT_EQ(keys_of(hash), expected);
    }
  }
}

TEST(Hash, PointersStayValidWhileOthersComeAndGo) {
  Hash hash;
  Hash* place = &hash.at("stay");
  for (int i = 0; i < 1000; ++i) hash.at(std::to_string(i));
  for (int i = 0; i < 1000; ++i) hash.unset(std::to_string(i));
  place->set_value("SIZE", 7);
  EXPECT_EQ(hash.get("stay")->value("SIZE"), "7");
}

TEST(Hash, CopiesAreIndependentAndMovesTakeAll) {
  Hash original = manual_example();
  Hash copy = original;
  copy.get_kv("RANK", "0")->set_value("FILES", 9);
  EXPECT_EQ(original.get_kv("RANK", "0")->value("FILES"), "2");
  EXPECT_FALSE(copy == original);
  Hash moved = std::move(original);
  EXPECT_EQ(moved, manual_example());
}

TEST(Hash, MovedLargeHashStillFindsItsKeys) {
  Hash hash;
  for (int i = 0; i < 100; ++i) hash.at(std::to_string(i));
  Hash moved = std::move(hash);
  EXPECT_TRUE(moved.contains("57"));
  moved.at("new");
  EXPECT_TRUE(moved.contains("new"));
}

TEST(Hash, AssigningAPartOfItselfIsSafe) {
  Hash hash = manual_example();
  hash = Hash(*hash.get("RANK"));
  EXPECT_TRUE(hash.contains("0"));
  hash = hash;  // NOLINT
  EXPECT_TRUE(hash.contains("1"));
}

TEST(HashKeyValue, UnsetRemovesTheKeyWithItsLastValue) {
  Hash hash;
  hash.set_kv("RANK", "0");
  hash.set_kv_int("RANK", 1);
  hash.unset_kv("RANK", "0");
  EXPECT_TRUE(hash.contains("RANK"));
  hash.unset_kv_int("RANK", 1);
  EXPECT_FALSE(hash.contains("RANK"));
  hash.unset_kv("RANK", "7");
}

TEST(HashKeyValue, SetWithoutUnsetAddsAndSetValueReplaces) {
  Hash hash;
  hash.set_kv("TIMESTEP", "20");
  hash.set_kv("TIMESTEP", "21");
  EXPECT_EQ(keys_of(*hash.get("TIMESTEP")), (std::vector<std::string>{"20", "21"}));
  EXPECT_FALSE(hash.value("TIMESTEP").has_value());
  hash.set_value("TIMESTEP", 22);
  EXPECT_EQ(hash.value("TIMESTEP"), "22");
}

TEST(HashKeyValue, RequiredNumbersAreChecked) {
  Hash hash;
  hash.set_value("SIZE", "18446744073709551615");
  hash.set_value("BAD", "12x");
  hash.set_value("NEGATIVE", -1);
  EXPECT_EQ(*hash.require_uint("SIZE"), 18446744073709551615ull);
  EXPECT_EQ(hash.require_int("SIZE").status().code(), StatusCode::kCorrupt);
  EXPECT_EQ(*hash.require_int("NEGATIVE"), -1);
  EXPECT_FALSE(hash.require_uint("NEGATIVE").ok());
  EXPECT_EQ(hash.require_int("BAD").status().message(),
            "key 'BAD' has the value '12x', which is not a whole number");
  EXPECT_EQ(hash.require_int("NONE").status().message(), "key 'NONE' is missing");
}

TEST(HashMerge, JoinsTreesAndKeepsBothSides) {
  Hash a = manual_example();
  Hash b;
  b.set_kv("RANK", "1").set_value("NODE", "n7");
  b.set_kv("RANK", "2");
  a.merge(b);
  EXPECT_EQ(a.get("RANK")->size(), 3u);
  EXPECT_EQ(a.get_kv("RANK", "1")->value("FILES"), "1");
  EXPECT_EQ(a.get_kv("RANK", "1")->value("NODE"), "n7");
}

TEST(HashExtract, TakesASubtreeOut) {
  Hash hash = manual_example();
  Hash rank = hash.extract("RANK");
  EXPECT_TRUE(hash.empty());
  EXPECT_EQ(rank.size(), 2u);
  EXPECT_TRUE(hash.extract("RANK").empty());
}

TEST(HashSort, ByTextAndByNumberBothWays) {
  Hash hash;
  for (const char* key : {"10", "9", "abc", "-3", "100", "aa"}) hash.at(key);
  hash.sort();
  EXPECT_EQ(keys_of(hash), (std::vector<std::string>{"-3", "10", "100", "9", "aa", "abc"}));
  hash.sort(Hash::Order::kDescending);
  EXPECT_EQ(keys_of(hash), (std::vector<std::string>{"abc", "aa", "9", "100", "10", "-3"}));
  hash.sort_int();
  EXPECT_EQ(keys_of(hash), (std::vector<std::string>{"-3", "9", "10", "100", "aa", "abc"}));
  hash.sort_int(Hash::Order::kDescending);
  EXPECT_EQ(keys_of(hash), (std::vector<std::string>{"100", "10", "9", "-3", "aa", "abc"}));
  EXPECT_EQ(hash.int_keys(), (std::vector<std::int64_t>{-3, 9, 10, 100}));
  EXPECT_TRUE(hash.contains("abc"));
}

TEST(HashSort, ALargeHashIsStillFoundByKeyAfterwards) {
  Hash hash;
  for (int i = 1000; i > 0; --i) hash.at(std::to_string(i));
  hash.sort_int();
  EXPECT_EQ(hash.elements().front().key, "1");
  EXPECT_TRUE(hash.contains("500"));
  hash.unset("500");
  EXPECT_FALSE(hash.contains("500"));
}

TEST(HashFormat, SetsAndGetsSeveralLevelsInOneCall) {
  Hash hash;
  Hash value;
  value.at("payload");
  Hash* place = hash.setf(std::move(value), "%s %d CKPT %lld", "RANK", 0, 10LL);
  ASSERT_NE(place, nullptr);
  EXPECT_EQ(hash.getf("RANK %d %s %zu", 0, "CKPT", std::size_t{10}), place);
  EXPECT_TRUE(place->contains("payload"));
  EXPECT_EQ(hash.getf("RANK %d CKPT %d", 1, 10), nullptr);
}

TEST(HashFormat, PrintsFloatsAndHexadecimal) {
  Hash hash;
  hash.setf(Hash(), "T %g X %x F %f C %c", 0.5, 255u, 1.25, 'q');
  EXPECT_NE(hash.getf("T 0.5 X ff F 1.250000 C q"), nullptr);
}

TEST(HashFormat, RefusesFormsItDoesNotKnow) {
  Hash hash;
  EXPECT_EQ(hash.setf(Hash(), "A  B"), nullptr);  // two spaces
  EXPECT_EQ(hash.setf(Hash(), "%5d", 3), nullptr);
  EXPECT_TRUE(hash.empty());
}

TEST(HashText, PrintsOneKeyALineIndentedByLevel) {
  Hash hash;
  hash.set_kv("RANK", "0").set_value("FILES", 2);
  EXPECT_EQ(hash.print(2), "RANK\n  0\n    FILES\n      2\n");
  EXPECT_EQ(hash.print(1), "RANK\n 0\n  FILES\n   2\n");
}

TEST(HashText, TreeShowsSingleValuesOnOneLine) {
  EXPECT_EQ(manual_example().print_tree(),
            "+- RANK\n"
            "   +- 0\n"
            "   |  +- FILES = 2\n"
            "   |  +- FILE\n"
            "   |     +- foo_0.txt\n"
            "   |     |  +- SIZE = 1024\n"
            "   |     |  +- COMPLETE = 1\n"
            "   |     +- bar_0.txt\n"
            "   |        +- SIZE = 2048\n"
            "   |        +- COMPLETE = 1\n"
            "   +- 1\n"
            "      +- FILES = 1\n"
            "      +- FILE\n"
            "         +- foo_1.txt\n"
            "            +- SIZE = 3072\n"
            "            +- COMPLETE = 1\n");
}

TEST(HashText, EscapesControlCharacters) {
  Hash hash;
  hash.at("a\x1b[2Jb");
  EXPECT_EQ(hash.print(), "a\\x1b[2Jb\n");
}

TEST(HashPack, RoundTripsRandomTrees) {
  std::mt19937 random(12345);
  for (int round = 0; round < 50; ++round) {
    Hash hash;
    for (int i = 0; i < 200; ++i) {
      Hash* place = &hash;
      for (auto depth = random() % 6; depth-- > 0;)
        place = &place->at(std::to_string(random() % 9));
      place->at(std::string(random() % 40, static_cast<char>('a' + random() % 26)));
    }
    auto packed = hash.pack();
    ASSERT_TRUE(packed.ok());
    EXPECT_EQ(packed->size(), hash.pack_size());
    auto back = Hash::unpack(*packed);
    ASSERT_TRUE(back.ok()) << back.status().to_string();
    EXPECT_EQ(*back, hash);
    EXPECT_EQ(back->print(), hash.print()) << "order is kept";
  }
}

TEST(HashPack, KeepsAValueOfAnySize) {
  Hash hash;
  hash.set_value("TEXT", std::string(3'000'000, 'x'));
  auto back = Hash::unpack(*hash.pack());
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->value("TEXT")->size(), 3'000'000u);
}

TEST(HashPack, RefusesAKeyWithANulByte) {
  Hash hash;
  hash.at(std::string("a\0b", 3));
  EXPECT_EQ(hash.pack().status().message(), "cannot pack a hash: the key 'a\\x00b' has a NUL byte");
}

TEST(HashPack, RefusesNestingThatWouldExhaustTheStack) {
  std::vector<std::byte> bytes;
  for (int i = 0; i < 1'000'000; ++i) {
    bytes.insert(bytes.end(),
                 {std::byte{0}, std::byte{0}, std::byte{0}, std::byte{1}, std::byte{0}});
  }
  auto result = Hash::unpack(bytes);
  EXPECT_EQ(result.status().code(), StatusCode::kCorrupt);
  EXPECT_NE(result.status().message().find("nested deeper"), std::string::npos);

  Hash deep;
  Hash* place = &deep;
  for (int i = 0; i < Hash::kMaxDepth + 1; ++i) place = &place->at("x");
  EXPECT_FALSE(deep.pack().ok());
}

TEST(HashPack, RefusesAHugeCountWithoutAllocating) {
  std::vector<std::byte> bytes(64, std::byte{0xff});
  EXPECT_EQ(Hash::unpack(bytes).status().code(), StatusCode::kCorrupt);
}

TEST(HashPack, RefusesDuplicateKeysAndTrailingBytes) {
  const unsigned char twice[] = {0, 0, 0, 2, 'a', 0, 0, 0, 0, 0, 'a', 0, 0, 0, 0, 0};
  auto result = Hash::unpack(std::as_bytes(std::span(twice)));
  EXPECT_NE(result.status().message().find("has a key twice"), std::string::npos);
  const unsigned char trailing[] = {0, 0, 0, 0, 7};
  EXPECT_FALSE(Hash::unpack(std::as_bytes(std::span(trailing))).ok());
}

TEST(HashPack, UnpackMergesIntoWhatIsThere) {
  Hash a;
  a.set_value("A", 1);
  Hash b;
  b.set_value("B", 2);
  std::size_t consumed = 0;
  ASSERT_TRUE(b.unpack_from(*a.pack(), consumed).ok());
  EXPECT_EQ(b.value("A"), "1");
  EXPECT_EQ(b.value("B"), "2");
}

}  // namespace
}  // namespace scr
