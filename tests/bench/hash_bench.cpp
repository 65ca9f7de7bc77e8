// Cost per entry of building, packing, unpacking and looking up in a hash, from 10^3 to 10^6
// entries. The counter per_entry_ratio compares with the same operation at 10^3 entries in the same
// run: it grows with the cache misses of a larger table, not with the number of entries.
//
// Two plain things show what memory alone costs at that size. `nodes` makes and frees a list with
// as many nodes of the same size as a hash has: its growth is that of fresh memory. `pointers`
// reads, in the same random order as look_up_random, an array of pointers and the string each one
// points to, two dependent accesses like those of a look-up: its growth is that of misses in cache
// and TLB. `look_up_same_memory` takes that growth away: it always looks up in 10^6 entries, in one
// hash or spread over hashes of the size it names, so that every size meets the same cold memory.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <forward_list>
#include <map>
#include <numeric>
#include <random>

#include "core/base/hash.hpp"

namespace {

scr::Hash make_hash(std::int64_t entries) {
  scr::Hash hash;
  for (std::int64_t i = 0; i < entries; ++i) hash.set_kv_int("FILE", i).set_value("SIZE", i * 3);
  return hash;
}

// Seconds per entry of the smallest size, by benchmark.
std::map<std::string, double>& baselines() {
  static std::map<std::string, double> values;
  return values;
}

template <typename Body>
void run(benchmark::State& state, const std::string& name, Body body) {
  double seconds = 0;
  std::int64_t rounds = 0;
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    body();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    state.SetIterationTime(elapsed.count());
    seconds += elapsed.count();
    ++rounds;
  }
  const double per_entry = seconds / static_cast<double>(rounds * state.range(0));
  if (state.range(0) == 1000) baselines()[name] = per_entry;
  state.counters["ns_per_entry"] = per_entry * 1e9;
  state.counters["per_entry_ratio"] = per_entry / baselines()[name];
}

void build(benchmark::State& state) {
  run(state, "build", [&] { benchmark::DoNotOptimize(make_hash(state.range(0))); });
}
void pack(benchmark::State& state) {
  const scr::Hash hash = make_hash(state.range(0));
  run(state, "pack", [&] { benchmark::DoNotOptimize(hash.pack()); });
}
void unpack(benchmark::State& state) {
  const auto packed = *make_hash(state.range(0)).pack();
  run(state, "unpack", [&] { benchmark::DoNotOptimize(scr::Hash::unpack(packed)); });
}
std::vector<std::int64_t> numbers(std::int64_t count, bool shuffled) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  if (shuffled) std::shuffle(order.begin(), order.end(), std::mt19937_64(1));
  return order;
}

void look_up(benchmark::State& state, const std::string& name, bool shuffled) {
  const scr::Hash hash = make_hash(state.range(0));
  const auto order = numbers(state.range(0), shuffled);
  run(state, name, [&] {
    for (const std::int64_t i : order) benchmark::DoNotOptimize(hash.get_kv_int("FILE", i));
  });
}
void look_up_in_order(benchmark::State& state) { look_up(state, "look_up_in_order", false); }
void look_up_random(benchmark::State& state) { look_up(state, "look_up_random", true); }

void look_up_same_memory(benchmark::State& state) {
  constexpr std::int64_t kEntries = 1000000;
  const std::int64_t each = state.range(0);
  std::vector<scr::Hash> hashes;
  for (std::int64_t i = 0; i < kEntries / each; ++i) hashes.push_back(make_hash(each));
  auto order = numbers(kEntries, true);
  // As many look-ups in a round as the name says; rounds go on where the last one ended.
  std::size_t next = 0;
  run(state, "look_up_same_memory", [&] {
    for (std::int64_t i = 0; i < each; ++i) {
      const std::int64_t at = order[next];
      next = (next + 1) % order.size();
      const scr::Hash& hash = hashes[static_cast<std::size_t>(at / each)];
      benchmark::DoNotOptimize(hash.get_kv_int("FILE", at % each));
    }
  });
}

void nodes(benchmark::State& state) {
  constexpr int kNodesPerEntry = 3;  // of make_hash
  run(state, "nodes", [&] {
    std::forward_list<std::array<char, sizeof(scr::Hash::Element) - sizeof(void*)>> list;
    for (std::int64_t i = 0; i < kNodesPerEntry * state.range(0); ++i) list.emplace_front();
    benchmark::DoNotOptimize(list);
  });
}
void pointers(benchmark::State& state) {
  const scr::Hash hash = make_hash(state.range(0));
  std::vector<const std::string*> keys;
  for (const auto& element : hash.get("FILE")->elements()) keys.push_back(&element.key);
  const auto order = numbers(state.range(0), true);
  run(state, "pointers", [&] {
    for (const std::int64_t i : order) {
      // As in a look-up, the number becomes text, which is compared.
      benchmark::DoNotOptimize(*keys[static_cast<std::size_t>(i)] == std::to_string(i));
    }
  });
}

BENCHMARK(build)->RangeMultiplier(10)->Range(1000, 1000000)->UseManualTime();
BENCHMARK(pack)->RangeMultiplier(10)->Range(1000, 1000000)->UseManualTime();
BENCHMARK(unpack)->RangeMultiplier(10)->Range(1000, 1000000)->UseManualTime();
BENCHMARK(look_up_in_order)->RangeMultiplier(10)->Range(1000, 1000000)->UseManualTime();
BENCHMARK(look_up_random)->RangeMultiplier(10)->Range(1000, 1000000)->UseManualTime();
BENCHMARK(look_up_same_memory)->RangeMultiplier(10)->Range(1000, 1000000)->UseManualTime();
BENCHMARK(nodes)->RangeMultiplier(10)->Range(1000, 1000000)->UseManualTime();
BENCHMARK(pointers)->RangeMultiplier(10)->Range(1000, 1000000)->UseManualTime();

}  // namespace

BENCHMARK_MAIN();
