#include "core/base/hash.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <functional>
#include <unordered_map>
#include <utility>

#include "core/base/text.hpp"

namespace scr {

namespace {
// Below this number of elements a linear search is faster than an index, and needs no memory.
constexpr std::size_t kIndexFrom = 16;
}  // namespace

// Elements by key: a table of pointers with open addressing. It holds the hash values too, so that
// neither a miss nor growth has to fetch elements from memory, and a hit fetches one.
class Hash::Index {
 public:
  static std::size_t hash_of(std::string_view key) { return std::hash<std::string_view>()(key); }

  std::size_t size() const { return size_; }

  Element* find(std::string_view key) const {
    const std::size_t hash = hash_of(key);
    for (std::size_t at = hash & mask(); slots_[at].element != nullptr; at = (at + 1) & mask()) {
      if (slots_[at].hash == hash && slots_[at].element->key == key) return slots_[at].element;
    }
    return nullptr;
  }

  // Its key is not there yet.
  void insert(Element* element) {
    if (4 * (size_ + 1) > 3 * slots_.size()) grow();
    place({hash_of(element->key), element});
    ++size_;
  }

  void erase(const Element* element) {
    std::size_t gap = hash_of(element->key) & mask();
    while (slots_[gap].element != element) gap = (gap + 1) & mask();
    // What was put further on because of the gap's old content moves back, so that no search ends
    // too early.
    for (std::size_t at = (gap + 1) & mask(); slots_[at].element != nullptr;
         at = (at + 1) & mask()) {
      const std::size_t home = slots_[at].hash & mask();
      if (((at - home) & mask()) < ((at - gap) & mask())) continue;
      slots_[gap] = slots_[at];
      gap = at;
    }
    slots_[gap] = {};
    --size_;
  }

 private:
  struct Slot {
    std::size_t hash = 0;
    Element* element = nullptr;
  };

  std::size_t mask() const { return slots_.size() - 1; }

  void place(const Slot& slot) {
    std::size_t at = slot.hash & mask();
    while (slots_[at].element != nullptr) at = (at + 1) & mask();
    slots_[at] = slot;
  }

  void grow() {
    const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(2 * slots_.size()));
    for (const Slot& slot : old) {
      if (slot.element != nullptr) place(slot);
    }
  }

  std::vector<Slot> slots_{2 * kIndexFrom};  // a power of two
  std::size_t size_ = 0;
};

Hash::Hash() = default;
Hash::~Hash() { clear(); }

Hash::Hash(Hash&& other) noexcept
    : first_(std::exchange(other.first_, nullptr)), index_(std::move(other.index_)) {}

// Takes what `other` has before it lets go of its own: `other` may be a part of that.
Hash& Hash::operator=(Hash&& other) noexcept {
  Hash taken(std::move(other));
  std::swap(first_, taken.first_);
  std::swap(index_, taken.index_);
  return *this;
}

Hash::Hash(const Hash& other) {
  for (const Element& element : other.elements()) append(element.key).hash = element.hash;
}

Hash& Hash::operator=(const Hash& other) {
  if (this != &other) *this = Hash(other);
  return *this;
}

std::size_t Hash::size() const {
  if (index_) return index_->size();
  std::size_t count = 0;
  for (const Element* element = first_; element != nullptr; element = element->next_) ++count;
  return count;
}

void Hash::link(Element* element) {
  element->next_ = nullptr;
  if (first_ == nullptr) {
    first_ = element;
  } else {
    element->previous_ = first_->previous_;
    first_->previous_->next_ = element;
  }
  first_->previous_ = element;
}

void Hash::unlink(Element* element) {
  Element* after = element->next_;
  if (after != nullptr) {
    after->previous_ = element->previous_;
  } else {
    first_->previous_ = element->previous_;
  }
  if (element == first_) {
    first_ = after;
  } else {
    element->previous_->next_ = after;
  }
}

void Hash::build_index() {
  index_ = std::make_unique<Index>();
  for (Element& element : elements()) index_->insert(&element);
}

Hash::Element* Hash::find(std::string_view key) const {
  if (index_) return index_->find(key);
  Element* element = first_;
  while (element != nullptr && element->key != key) element = element->next_;
  return element;
}

Hash::Element& Hash::append(std::string_view key) {
  auto* element = new Element(key);  // the list owns it
  link(element);
  if (index_) {
    index_->insert(element);
  } else if (size() >= kIndexFrom) {
    build_index();
  }
  return *element;
}

const Hash* Hash::get(std::string_view key) const {
  const Element* element = find(key);
  return element == nullptr ? nullptr : &element->hash;
}

Hash* Hash::get(std::string_view key) { return const_cast<Hash*>(std::as_const(*this).get(key)); }

Hash& Hash::at(std::string_view key) {
  if (Hash* found = get(key)) return *found;
  return append(key).hash;
}

Hash& Hash::set(std::string_view key, Hash value) {
  Hash& place = at(key);
  place = std::move(value);
  return place;
}

void Hash::unset(std::string_view key) { extract(key); }

void Hash::clear() {
  index_.reset();
  while (first_ != nullptr) {
    const std::unique_ptr<Element> element(first_);
    first_ = element->next_;
  }
}

Hash Hash::extract(std::string_view key) {
  const std::unique_ptr<Element> element(find(key));
  if (element == nullptr) return {};
  if (index_) index_->erase(element.get());
  unlink(element.get());
  if (empty()) index_.reset();
  return std::move(element->hash);
}

void Hash::merge(const Hash& other) {
  if (this == &other) return;
  for (const Element& element : other.elements()) at(element.key).merge(element.hash);
}

bool Hash::operator==(const Hash& other) const {
  if (size() != other.size()) return false;
  return std::all_of(elements().begin(), elements().end(), [&other](const Element& element) {
    const Hash* there = other.get(element.key);
    return there != nullptr && element.hash == *there;
  });
}

// --- key/value helpers

const Hash* Hash::get_kv(std::string_view key, std::string_view value) const {
  const Hash* below = get(key);
  return below ? below->get(value) : nullptr;
}

Hash* Hash::get_kv(std::string_view key, std::string_view value) {
  return const_cast<Hash*>(std::as_const(*this).get_kv(key, value));
}

Hash& Hash::set_kv(std::string_view key, std::string_view value) { return at(key).at(value); }

void Hash::unset_kv(std::string_view key, std::string_view value) {
  Hash* below = get(key);
  if (!below) return;
  below->unset(value);
  if (below->empty()) unset(key);
}

const Hash* Hash::get_kv_int(std::string_view key, std::int64_t value) const {
  return get_kv(key, std::to_string(value));
}
Hash& Hash::set_kv_int(std::string_view key, std::int64_t value) {
  return set_kv(key, std::to_string(value));
}
void Hash::unset_kv_int(std::string_view key, std::int64_t value) {
  unset_kv(key, std::to_string(value));
}

// --- single values

void Hash::set_value(std::string_view key, std::string_view value) {
  Hash leaf;
  leaf.append(value);
  set(key, std::move(leaf));
}

std::optional<std::string_view> Hash::value(std::string_view key) const {
  const Hash* below = get(key);
  if (!below || below->size() != 1) return std::nullopt;
  return below->elements().front().key;
}

Result<std::string> Hash::require_value(std::string_view key) const {
  if (auto text = value(key)) return std::string(*text);
  return corrupt("key '" + text::escape(key) +
                 (contains(key) ? "' has not exactly one value" : "' is missing"));
}

Result<std::int64_t> Hash::require_int(std::string_view key) const {
  SCR_ASSIGN_OR_RETURN(std::string text, require_value(key));
  if (auto number = text::parse_int(text)) return *number;
  return corrupt("key '" + text::escape(key) + "' has the value '" + text::escape(text) +
                 "', which is not a whole number");
}

Result<std::uint64_t> Hash::require_uint(std::string_view key) const {
  SCR_ASSIGN_OR_RETURN(std::string text, require_value(key));
  if (auto number = text::parse_uint(text)) return *number;
  return corrupt("key '" + text::escape(key) + "' has the value '" + text::escape(text) +
                 "', which is not a whole number of 0 or more");
}

// --- format functions

namespace {

// Length letters of a printf conversion.
enum class Width { kInt, kLong, kLongLong, kSize };

std::string print_one(const char* format, ...) __attribute__((format(printf, 1, 2)));
std::string print_one(const char* format, ...) {
  va_list args;
  va_start(args, format);
  char* text = nullptr;
  const int length = vasprintf(&text, format, args);
  va_end(args);
  if (length < 0) return {};
  std::string result(text, static_cast<std::size_t>(length));
  free(text);  // NOLINT: vasprintf allocates with malloc
  return result;
}

Width parse_width(std::string_view& spec) {
  Width width = Width::kInt;
  if (spec.starts_with("ll")) {
    width = Width::kLongLong;
    spec.remove_prefix(2);
  } else if (spec.starts_with("l")) {
    width = Width::kLong;
    spec.remove_prefix(1);
  } else if (spec.starts_with("z")) {
    width = Width::kSize;
    spec.remove_prefix(1);
  }
  return width;
}

// va_list cannot be passed by reference portably unless it is wrapped.
struct Arguments {
  va_list list;
};

std::int64_t next_signed(Arguments& args, Width width) {
  switch (width) {
    case Width::kInt:
      return va_arg(args.list, int);
    case Width::kLong:
      return va_arg(args.list, long);
    case Width::kLongLong:
      return va_arg(args.list, long long);
    case Width::kSize:
      return va_arg(args.list, ssize_t);
  }
  return 0;
}

std::uint64_t next_unsigned(Arguments& args, Width width) {
  switch (width) {
    case Width::kInt:
      return va_arg(args.list, unsigned);
    case Width::kLong:
      return va_arg(args.list, unsigned long);
    case Width::kLongLong:
      return va_arg(args.list, unsigned long long);
    case Width::kSize:
      return va_arg(args.list, std::size_t);
  }
  return 0;
}

// One word of a format as a key; nothing if the word is not of the supported form.
std::optional<std::string> format_word(std::string_view word, Arguments& args) {
  if (word.empty()) return std::nullopt;
  if (word[0] != '%') return std::string(word);
  word.remove_prefix(1);
  const Width width = parse_width(word);
  if (word.size() != 1) return std::nullopt;
  switch (word[0]) {
    case 's': {
      const char* text = va_arg(args.list, const char*);
      return text ? std::optional<std::string>(text) : std::nullopt;
    }
    case 'c':
      return std::string(1, static_cast<char>(va_arg(args.list, int)));
    case 'd':
    case 'i':
      return std::to_string(next_signed(args, width));
    case 'u':
      return std::to_string(next_unsigned(args, width));
    case 'x':
      return print_one("%llx", static_cast<unsigned long long>(next_unsigned(args, width)));
    case 'f':
      return print_one("%f", va_arg(args.list, double));
    case 'g':
      return print_one("%g", va_arg(args.list, double));
    default:
      return std::nullopt;
  }
}

std::optional<std::vector<std::string>> format_keys(const char* format, Arguments& args) {
  std::vector<std::string> keys;
  for (std::string_view word : text::split(format, ' ')) {
    auto key = format_word(word, args);
    if (!key) return std::nullopt;
    keys.push_back(std::move(*key));
  }
  return keys;
}

}  // namespace

Hash* Hash::setf(Hash value, const char* format, ...) {
  Arguments args;
  va_start(args.list, format);
  auto keys = format_keys(format, args);
  va_end(args.list);
  if (!keys || keys->empty()) return nullptr;
  Hash* place = this;
  for (const std::string& key : *keys) place = &place->at(key);
  *place = std::move(value);
  return place;
}

const Hash* Hash::getf(const char* format, ...) const {
  Arguments args;
  va_start(args.list, format);
  auto keys = format_keys(format, args);
  va_end(args.list);
  if (!keys || keys->empty()) return nullptr;
  const Hash* place = this;
  for (const std::string& key : *keys) {
    place = place->get(key);
    if (!place) return nullptr;
  }
  return place;
}

// --- order

template <typename Before>
void Hash::sort_by(Before before) {
  std::vector<Element*> sorted;
  for (Element& element : elements()) sorted.push_back(&element);
  std::stable_sort(sorted.begin(), sorted.end(), before);
  first_ = nullptr;
  for (Element* element : sorted) link(element);
}

void Hash::sort(Order order) {
  sort_by([order](const Element* a, const Element* b) {
    return order == Order::kAscending ? a->key < b->key : b->key < a->key;
  });
}

void Hash::sort_int(Order order) {
  // Parse each key once, not once a comparison.
  std::unordered_map<const Element*, std::optional<std::int64_t>> numbers;
  for (const Element& element : elements()) numbers[&element] = text::parse_int(element.key);
  sort_by([&numbers, order](const Element* a, const Element* b) {
    const auto& left = numbers.at(a);
    const auto& right = numbers.at(b);
    if (left.has_value() != right.has_value()) return left.has_value();
    if (!left) return a->key < b->key;
    return order == Order::kAscending ? *left < *right : *right < *left;
  });
}

std::vector<std::int64_t> Hash::int_keys() const {
  std::vector<std::int64_t> keys;
  for (const Element& element : elements()) {
    if (auto number = text::parse_int(element.key)) keys.push_back(*number);
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

// --- text

namespace {

void print_level(const Hash& hash, int indent, int depth, std::string& out) {
  for (const auto& element : hash.elements()) {
    out.append(static_cast<std::size_t>(indent) * static_cast<std::size_t>(depth), ' ');
    out += text::escape(element.key);
    out += '\n';
    print_level(element.hash, indent, depth + 1, out);
  }
}

void print_tree_level(const Hash& hash, const std::string& margin, std::string& out) {
  std::size_t left = hash.size();
  for (const auto& element : hash.elements()) {
    --left;
    out += margin + "+- " + text::escape(element.key);
    const bool single = element.hash.size() == 1 && element.hash.elements().front().hash.empty();
    if (single) out += " = " + text::escape(element.hash.elements().front().key);
    out += '\n';
    if (!single) print_tree_level(element.hash, margin + (left > 0 ? "|  " : "   "), out);
  }
}

}  // namespace

std::string Hash::print(int indent) const {
  std::string out;
  print_level(*this, std::max(indent, 0), 0, out);
  return out;
}

std::string Hash::print_tree() const {
  std::string out;
  print_tree_level(*this, "", out);
  return out;
}

}  // namespace scr
