// Cost per entry of building, packing, unpacking and looking up in a hash, from 10^3 to 10^6
// entries. The counter per_entry_ratio compares with the same operation at 10^3 entries in the same
// run: it grows with the cache misses of a larger table, not with the number of entries.
#include <benchmark/benchmark.h>

#include <chrono>
#include <map>

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
void look_up(benchmark::State& state) {
  const scr::Hash hash = make_hash(state.range(0));
  run(state, "look_up", [&] {
    for (std::int64_t i = 0; i < state.range(0); ++i) {
      benchmark::DoNotOptimize(hash.get_kv_int("FILE", (i * 7919) % state.range(0)));
    }
  });
}

BENCHMARK(build)->RangeMultiplier(10)->Range(1000, 1000000)->UseManualTime();
BENCHMARK(pack)->RangeMultiplier(10)->Range(1000, 1000000)->UseManualTime();
BENCHMARK(unpack)->RangeMultiplier(10)->Range(1000, 1000000)->UseManualTime();
BENCHMARK(look_up)->RangeMultiplier(10)->Range(1000, 1000000)->UseManualTime();

}  // namespace

BENCHMARK_MAIN();
