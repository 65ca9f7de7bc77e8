// Fuzzes the small state files (halt, flush, owner) behind the checksum of their file: what is
// accepted comes back from its own hash, and asking it anything does not crash.
#include <cstdlib>

#include "core/base/flush_file.hpp"
#include "core/base/halt_file.hpp"
#include "core/base/job_owner.hpp"

namespace {

template <typename State>
void check_round_trip(const scr::Hash& hash) {
  const auto state = State::from_hash(hash);
  if (!state.ok()) return;
  const auto again = State::from_hash(state->to_hash());
  if (!again.ok() || !(*again == *state)) std::abort();
}

void ask(const scr::Hash& hash) {
  if (const auto halt = scr::HaltConditions::from_hash(hash); halt.ok()) {
    (void)scr::reason_to_halt(*halt, 1'700'000'000, scr::HaltQuestion::kRelaunch);
  }
  if (const auto flush = scr::FlushFile::from_hash(hash); flush.ok()) {
    for (const int id : flush->datasets_to_save()) {
      if (!flush->need_flush(id)) std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto hash = scr::Hash::unpack(std::as_bytes(std::span(data, size)));
  if (!hash.ok()) return 0;
  check_round_trip<scr::HaltConditions>(*hash);
  check_round_trip<scr::FlushFile>(*hash);
  check_round_trip<scr::JobOwnerInfo>(*hash);
  ask(*hash);
  return 0;
}
