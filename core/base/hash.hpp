// Hash: the tree of strings that every h5scr file and message is made of (SCR hash objects).
//
// A hash is a list of elements; each has a key (any string without a NUL byte, unique in its hash)
// and a value, which is again a hash. A plain value such as "SIZE = 1024" is the element SIZE whose
// hash has the single element 1024. Hashes are for disk and wire only: in memory the project uses
// structs, with one function each way next to the struct.
//
// Elements keep the order in which they were inserted. Look-up, insert and removal take constant
// time on average, whatever the number of elements. Pointers to elements and values stay valid
// until that element is removed. Not thread-safe; distinct hashes may be used from distinct
// threads.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/base/status.hpp"

namespace scr {

class Hash {
 public:
  struct Element;
  // What iteration goes over: for (const auto& element : hash.elements()).
  template <typename AnyElement>
  class Range;

  // Packed hashes nested deeper than this are refused, so that no input can exhaust the stack.
  static constexpr int kMaxDepth = 128;

  Hash();
  ~Hash();
  Hash(const Hash& other);
  Hash& operator=(const Hash& other);
  Hash(Hash&& other) noexcept;
  Hash& operator=(Hash&& other) noexcept;

  // --- basics -------------------------------------------------------------------------------
  std::size_t size() const;
  bool empty() const { return first_ == nullptr; }

  // The hash of `key`, or nullptr.
  const Hash* get(std::string_view key) const;
  Hash* get(std::string_view key);
  bool contains(std::string_view key) const { return get(key) != nullptr; }

  // Puts `value` under `key` and returns it; replaces what was there.
  Hash& set(std::string_view key, Hash value);
  // The hash of `key`, made empty if there was none.
  Hash& at(std::string_view key);
  // Removes `key` if it is there.
  void unset(std::string_view key);
  void clear();

  // Iteration in order. Do not change keys.
  Range<const Element> elements() const;
  Range<Element> elements();

  // Takes the hash of `key` out of this one; an empty hash if there was none.
  Hash extract(std::string_view key);
  // Copies all of `other` into this hash; where both have a key, their hashes merge.
  void merge(const Hash& other);

  // Equality regards neither the order of elements nor how they were made.
  bool operator==(const Hash& other) const;

  // --- key/value helpers: an element `key` whose hash has an element `value` -----------------
  const Hash* get_kv(std::string_view key, std::string_view value) const;
  Hash* get_kv(std::string_view key, std::string_view value);
  Hash& set_kv(std::string_view key, std::string_view value);
  // Removes `value` below `key`, and `key` itself if that leaves it empty.
  void unset_kv(std::string_view key, std::string_view value);
  const Hash* get_kv_int(std::string_view key, std::int64_t value) const;
  Hash& set_kv_int(std::string_view key, std::int64_t value);
  void unset_kv_int(std::string_view key, std::int64_t value);

  // --- single values: `key` has exactly one element, the value -------------------------------
  // Replaces whatever was under `key`.
  void set_value(std::string_view key, std::string_view value);
  template <typename Integer>
  requires std::integral<Integer>
  void set_value(std::string_view key, Integer value) {
    set_value(key, std::string_view(std::to_string(value)));
  }
  // The value, or nothing if the key is missing or has not exactly one element.
  std::optional<std::string_view> value(std::string_view key) const;
  // As above, but a missing key or a value that is no number of this range is a kCorrupt error that
  // names the key. For readers of files: every number in a file is checked.
  Result<std::string> require_value(std::string_view key) const;
  Result<std::int64_t> require_int(std::string_view key) const;
  Result<std::uint64_t> require_uint(std::string_view key) const;

  // --- several keys in one call ----------------------------------------------------------------
  // Keys are the words of the format, separated by single spaces; a word is literal text or one
  // printf conversion (%s %d %i %u %x %f %g %c with the usual length letters):
  //   hash.setf(std::move(value), "RANK %d CKPT %d", 0, 10)
  // Returns the place where the value is, or nullptr if the format is not of that form.
  Hash* setf(Hash value, const char* format, ...) __attribute__((format(printf, 3, 4)));
  const Hash* getf(const char* format, ...) const __attribute__((format(printf, 2, 3)));

  // --- order -----------------------------------------------------------------------------------
  enum class Order { kAscending, kDescending };
  // Sorts the elements of this hash (not deeper) by key as text, or by key as a number; keys that
  // are no numbers go last, in the order of text.
  void sort(Order order = Order::kAscending);
  void sort_int(Order order = Order::kAscending);
  // The keys that are whole numbers, ascending.
  std::vector<std::int64_t> int_keys() const;

  // --- packed form (docs/formats/hash.md) ------------------------------------------------------
  std::size_t pack_size() const;
  // Fails if a key holds a NUL byte, a hash has more than 2^32-1 elements or is nested too deep.
  Status pack_to(std::vector<std::byte>& out) const;
  Result<std::vector<std::byte>> pack() const;
  // Reads one packed hash from the start of `bytes` and merges it into this hash; `consumed` gets
  // its length. Any byte sequence is safe: what is not a packed hash gives kCorrupt.
  Status unpack_from(std::span<const std::byte> bytes, std::size_t& consumed);
  // The same for a buffer that must hold exactly one packed hash.
  static Result<Hash> unpack(std::span<const std::byte> bytes);

  // --- text ------------------------------------------------------------------------------------
  // One key a line, each level `indent` spaces deeper than its parent. Control characters are
  // written as \xNN, so that a hostile key cannot drive a terminal.
  std::string print(int indent = 2) const;
  // A tree with "+- key = value" for single values.
  std::string print_tree() const;

 private:
  class Index;
  static Element* after(const Element* element);
  Element* find(std::string_view key) const;
  Element& append(std::string_view key);
  // Puts an element at the end of the list; the index does not know of it yet.
  void link(Element* element);
  void unlink(Element* element);
  void build_index();
  template <typename Before>
  void sort_by(Before before);

  // The elements are a list of nodes that never move; the node before the first is the last one,
  // and none comes after the last. Most hashes are leaves without elements, or have few: those have
  // no index and count their elements when asked.
  Element* first_ = nullptr;
  std::unique_ptr<Index> index_;
};

struct Hash::Element {
  explicit Element(std::string_view key_in) : key(key_in) {}
  Element(const Element&) = delete;
  Element& operator=(const Element&) = delete;

  std::string key;
  Hash hash;

 private:
  friend class Hash;
  Element* next_ = nullptr;
  Element* previous_ = nullptr;
};

template <typename AnyElement>
class Hash::Range {
 public:
  class Iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = Element;
    using difference_type = std::ptrdiff_t;
    using pointer = AnyElement*;
    using reference = AnyElement&;

    Iterator() = default;
    explicit Iterator(AnyElement* at) : at_(at) {}
    AnyElement& operator*() const { return *at_; }
    AnyElement* operator->() const { return at_; }
    Iterator& operator++() {
      at_ = Hash::after(at_);
      return *this;
    }
    Iterator operator++(int) {
      Iterator before = *this;
      ++*this;
      return before;
    }
    bool operator==(const Iterator&) const = default;

   private:
    AnyElement* at_ = nullptr;
  };

  explicit Range(AnyElement* first) : first_(first) {}
  Iterator begin() const { return Iterator(first_); }
  Iterator end() const { return Iterator(); }
  // There is at least one element.
  AnyElement& front() const { return *first_; }

 private:
  AnyElement* first_;
};

inline Hash::Element* Hash::after(const Element* element) { return element->next_; }
inline Hash::Range<const Hash::Element> Hash::elements() const {
  return Range<const Element>(first_);
}
inline Hash::Range<Hash::Element> Hash::elements() { return Range<Element>(first_); }

}  // namespace scr
