// The packed form of a hash: docs/formats/hash.md.
#include <cstring>
#include <limits>

#include "core/base/byte_order.hpp"
#include "core/base/hash.hpp"
#include "core/base/text.hpp"

namespace scr {

std::size_t Hash::pack_size() const {
  std::size_t size = sizeof(std::uint32_t);
  for (const Element& element : elements())
    size += element.key.size() + 1 + element.hash.pack_size();
  return size;
}

namespace {

Status check_packable(const Hash& hash, int depth) {
  if (depth > Hash::kMaxDepth) {
    return invalid_argument("cannot pack a hash that is nested deeper than " +
                            std::to_string(Hash::kMaxDepth) + " levels");
  }
  if (hash.size() > std::numeric_limits<std::uint32_t>::max()) {
    return invalid_argument("cannot pack a hash of more than 2^32-1 elements");
  }
  for (const auto& element : hash.elements()) {
    if (element.key.find('\0') != std::string::npos) {
      return invalid_argument("cannot pack a hash: the key '" + text::escape(element.key) +
                              "' has a NUL byte");
    }
    SCR_RETURN_IF_ERROR(check_packable(element.hash, depth + 1));
  }
  return {};
}

void append_packed(const Hash& hash, std::vector<std::byte>& out) {
  append_big_endian(out, static_cast<std::uint32_t>(hash.size()));
  for (const auto& element : hash.elements()) {
    auto key = std::as_bytes(std::span(element.key.c_str(), element.key.size() + 1));
    out.insert(out.end(), key.begin(), key.end());
    append_packed(element.hash, out);
  }
}

// Reads from the front of a buffer, keeping the position for messages.
class Unpacker {
 public:
  explicit Unpacker(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::size_t position() const { return position_; }

  Status unpack(Hash& hash, int depth) {
    if (depth > Hash::kMaxDepth) return error("nested deeper than allowed");
    if (bytes_.size() - position_ < sizeof(std::uint32_t)) return error("ends inside a count");
    auto count = read_big_endian<std::uint32_t>(bytes_.subspan(position_));
    position_ += sizeof(std::uint32_t);
    // The smallest element is an empty key and an empty hash.
    constexpr std::size_t kSmallestElement = 1 + sizeof(std::uint32_t);
    if (count > (bytes_.size() - position_) / kSmallestElement) {
      return error("has a count larger than the data that follows");
    }
    const std::size_t size_before = hash.size();
    for (std::uint32_t i = 0; i < count; ++i) SCR_RETURN_IF_ERROR(unpack_element(hash, depth));
    if (size_before == 0 && hash.size() != count) return error("has a key twice");
    return {};
  }

 private:
  Status unpack_element(Hash& hash, int depth) {
    auto rest = bytes_.subspan(position_);
    const auto* start = reinterpret_cast<const char*>(rest.data());
    const auto* end = static_cast<const char*>(std::memchr(start, '\0', rest.size()));
    if (end == nullptr) return error("has a key without an end");
    const std::string_view key(start, static_cast<std::size_t>(end - start));
    position_ += key.size() + 1;
    return unpack(hash.at(key), depth + 1);
  }

  Status error(std::string_view what) const {
    return corrupt("packed hash " + std::string(what) + " (at byte " + std::to_string(position_) +
                   " of " + std::to_string(bytes_.size()) + ")");
  }

  std::span<const std::byte> bytes_;
  std::size_t position_ = 0;
};

}  // namespace

Status Hash::pack_to(std::vector<std::byte>& out) const {
  SCR_RETURN_IF_ERROR(check_packable(*this, 0));
  out.reserve(out.size() + pack_size());
  append_packed(*this, out);
  return {};
}

Result<std::vector<std::byte>> Hash::pack() const {
  std::vector<std::byte> out;
  SCR_RETURN_IF_ERROR(pack_to(out));
  return out;
}

Status Hash::unpack_from(std::span<const std::byte> bytes, std::size_t& consumed) {
  Unpacker unpacker(bytes);
  Hash unpacked;
  SCR_RETURN_IF_ERROR(unpacker.unpack(unpacked, 0));
  consumed = unpacker.position();
  if (empty()) {
    *this = std::move(unpacked);
  } else {
    merge(unpacked);
  }
  return {};
}

Result<Hash> Hash::unpack(std::span<const std::byte> bytes) {
  Hash hash;
  std::size_t consumed = 0;
  SCR_RETURN_IF_ERROR(hash.unpack_from(bytes, consumed));
  if (consumed != bytes.size()) {
    return corrupt("packed hash ends at byte " + std::to_string(consumed) + ", but " +
                   std::to_string(bytes.size()) + " bytes are there");
  }
  return hash;
}

}  // namespace scr
