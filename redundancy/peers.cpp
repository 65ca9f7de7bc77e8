#include "redundancy/peers.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "redundancy/pass.hpp"

namespace scr::redundancy {
namespace {

std::span<std::byte> bytes_of(std::uint64_t& number) {
  return std::as_writable_bytes(std::span(&number, 1));
}

std::vector<std::byte> packed(const Hash& message) {
  if (auto bytes = message.pack(); bytes.ok()) return *std::move(bytes);
  Hash failure;
  failure.set(kFailureKey, status_to_hash(internal_error("cannot pack a message")));
  return failure.pack().value();
}

Hash unpacked(std::span<const std::byte> bytes) {
  if (auto message = Hash::unpack(bytes); message.ok()) return *std::move(message);
  Hash failure;
  failure.set(kFailureKey, status_to_hash(internal_error("its message cannot be read")));
  return failure;
}

}  // namespace

Hash status_to_hash(const Status& status) {
  Hash hash;
  if (status.ok()) return hash;
  hash.set_value("CODE", static_cast<int>(status.code()));
  hash.set_value("ERRNO", status.errno_value());
  hash.set_value("MESSAGE", status.message());
  return hash;
}

Status status_from_hash(const Hash& hash) {
  if (hash.empty()) return {};
  const auto code = hash.require_int("CODE");
  const auto errno_value = hash.require_int("ERRNO");
  const bool known = code.ok() && *code > 0 && *code <= static_cast<int>(StatusCode::kInternal);
  return {known ? static_cast<StatusCode>(*code) : StatusCode::kInternal,
          std::string(hash.value("MESSAGE").value_or("unknown failure")),
          errno_value.ok() ? static_cast<int>(*errno_value) : 0};
}

Peers::Peers(Communicator& comm, const std::vector<int>& hosts) : comm_(comm), processes_(hosts) {
  std::ranges::sort(processes_);
  processes_.erase(std::unique(processes_.begin(), processes_.end()), processes_.end());
}

std::vector<Hash> Peers::exchange(const std::function<Hash(std::size_t)>& message) {
  const std::size_t count = processes_.size();
  std::vector<std::vector<std::byte>> outgoing(count);
  std::vector<std::uint64_t> lengths(count);
  std::vector<Request> sends;
  for (std::size_t i = 0; i < count; ++i) {
    outgoing[i] = packed(message(i));
    lengths[i] = outgoing[i].size();
    if (processes_[i] == comm_.rank()) continue;
    sends.push_back(comm_.start_send(bytes_of(lengths[i]), processes_[i], kControlTag));
    sends.push_back(comm_.start_send(outgoing[i], processes_[i], kControlTag));
  }
  std::vector<Hash> result;
  for (std::size_t i = 0; i < count; ++i) {
    result.push_back(processes_[i] == comm_.rank() ? unpacked(outgoing[i])
                                                   : receive_from(processes_[i]));
  }
  for (Request& send : sends) send.wait();
  return result;
}

Hash Peers::receive_from(int process) {
  std::uint64_t length = 0;
  comm_.receive(bytes_of(length), process, kControlTag);
  std::vector<std::byte> incoming(length);
  comm_.receive(incoming, process, kControlTag);
  return unpacked(incoming);
}

Status Peers::exchange_status(const Status& mine) {
  Hash message;
  if (!mine.ok()) message.set(kFailureKey, status_to_hash(mine));
  const std::vector<Hash> all = exchange([&](std::size_t /*process*/) { return message; });
  return mine.ok() ? first_failure(all) : mine;
}

Status Peers::first_failure(const std::vector<Hash>& messages) const {
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const Hash* failure = messages[i].get(kFailureKey);
    if (failure == nullptr) continue;
    return status_from_hash(*failure).with_context(fmt::format("on rank {}", processes_[i]));
  }
  return {};
}

}  // namespace scr::redundancy
