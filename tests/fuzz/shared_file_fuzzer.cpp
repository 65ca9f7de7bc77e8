// Fuzzes what homes of shared files are told, as a run of messages, and the tables of logs, as they
// are and behind checksums that are right: nothing crashes, and what is accepted holds together.
#include <array>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "core/base/checksum.hpp"
#include "core/base/read_only_file.hpp"
#include "core/shared_file/home.hpp"
#include "core/shared_file/log.hpp"

namespace {

using scr::Result;

// Bytes as a file.
class MemoryFile final : public scr::ReadOnlyFile {
 public:
  explicit MemoryFile(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}
  Result<std::size_t> read_some(std::span<std::byte> buffer, std::uint64_t offset) override {
    if (offset >= bytes_.size()) return std::size_t{0};
    const std::size_t count = std::min<std::size_t>(buffer.size(), bytes_.size() - offset);
    std::memcpy(buffer.data(), bytes_.data() + offset, count);
    return count;
  }
  Result<scr::FileInfo> info() override {
    scr::FileInfo info;
    info.size = bytes_.size();
    return info;
  }
  const std::string& path() const override { return path_; }

 private:
  std::vector<std::byte> bytes_;
  std::string path_ = "log";
};

void check_table(std::vector<std::byte> bytes) {
  MemoryFile file(std::move(bytes));
  const auto table = scr::shared_file::read_log_table(file);
  if (!table.ok()) return;
  std::uint64_t end = 0;
  for (const auto& entry : table->entries) {
    if (entry.offset < end || entry.length == 0 || entry.end() > table->size) std::abort();
    if (entry.log_offset + entry.length > table->data_size) std::abort();
    end = entry.end();
  }
}

// The last 64 bytes are the footer; its checksums are made right, so that what they guard is
// reached.
std::vector<std::byte> with_checksums(std::vector<std::byte> bytes) {
  constexpr std::size_t kFooter = 64;
  constexpr std::size_t kEntry = 28;
  if (bytes.size() < kFooter) return bytes;
  std::byte* footer = bytes.data() + bytes.size() - kFooter;
  std::memcpy(footer, "SCRLOG1\n", 8);
  const std::uint64_t count = static_cast<std::uint64_t>(footer[40]) % 8;
  const std::uint64_t table = std::min<std::uint64_t>(count * kEntry, bytes.size() - kFooter);
  const std::uint64_t data = bytes.size() - kFooter - table;
  std::memcpy(footer + 32, &data, 8);
  std::memcpy(footer + 40, &count, 8);
  const std::uint32_t table_crc = scr::crc32(std::span(bytes).subspan(data, table));
  std::memcpy(footer + 20, &table_crc, 4);
  const std::uint32_t footer_crc = scr::crc32({footer, kFooter - 4});
  std::memcpy(footer + kFooter - 4, &footer_crc, 4);
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  const std::vector<std::byte> input(bytes, bytes + size);
  check_table(input);
  check_table(with_checksums(input));
  scr::shared_file::Home home;
  for (std::span rest(input); rest.size() > 1;) {
    const std::size_t length =
        std::min<std::size_t>(static_cast<std::size_t>(rest[0]), rest.size() - 1);
    const auto answer = home.handle(rest.subspan(1, length));
    if (answer.ok() && answer->size() > (std::size_t{1} << 20U)) std::abort();
    rest = rest.subspan(1 + length);
  }
  return 0;
}
