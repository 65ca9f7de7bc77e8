#include "core/base/hash.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "core/base/text.hpp"

namespace scr {

namespace {
// Below this number of elements a linear search is faster than an index, and needs no memory.
constexpr std::size_t kIndexFrom = 12;
}  // namespace

// Keys point into the elements; list nodes never move.
struct Hash::Index {
  std::unordered_map<std::string_view, Elements::iterator> by_key;
};

Hash::Hash() = default;
Hash::~Hash() = default;
Hash::Hash(Hash&& other) noexcept = default;
Hash& Hash::operator=(Hash&& other) noexcept = default;

Hash::Hash(const Hash& other) {
  if (other.empty()) return;
  elements_ = std::make_unique<Elements>(*other.elements_);
  rebuild_index();
}

Hash& Hash::operator=(const Hash& other) {
  if (this != &other) *this = Hash(other);
  return *this;
}

void Hash::rebuild_index() {
  index_.reset();
  if (size() < kIndexFrom) return;
  index_ = std::make_unique<Index>();
  index_->by_key.reserve(size());
  for (auto it = elements_->begin(); it != elements_->end(); ++it) {
    index_->by_key.emplace(it->key, it);
  }
}

// Only called when there are elements; returns end() if the key is not there.
Hash::Elements::iterator Hash::find(std::string_view key) const {
  if (index_) {
    auto found = index_->by_key.find(key);
    return found == index_->by_key.end() ? elements_->end() : found->second;
  }
  return std::find_if(elements_->begin(), elements_->end(),
                      [key](const Element& element) { return element.key == key; });
}

Hash::Element& Hash::append(std::string_view key) {
  if (!elements_) elements_ = std::make_unique<Elements>();
  elements_->push_back(Element{std::string(key), Hash()});
  if (index_) {
    index_->by_key.emplace(elements_->back().key, std::prev(elements_->end()));
  } else if (size() >= kIndexFrom) {
    rebuild_index();
  }
  return elements_->back();
}

const Hash* Hash::get(std::string_view key) const {
  if (empty()) return nullptr;
  auto it = find(key);
  return it == elements_->end() ? nullptr : &it->hash;
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
  elements_.reset();
}

Hash Hash::extract(std::string_view key) {
  if (empty()) return {};
  auto it = find(key);
  if (it == elements_->end()) return {};
  Hash taken = std::move(it->hash);
  if (index_) index_->by_key.erase(std::string_view(it->key));
  elements_->erase(it);
  if (elements_->empty()) clear();
  return taken;
}

const Hash::Elements& Hash::elements() const {
  static const Elements kNone;
  return elements_ ? *elements_ : kNone;
}

Hash::Elements& Hash::elements() {
  if (!elements_) elements_ = std::make_unique<Elements>();
  return *elements_;
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
// ------------------------------------------------------------------------------

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
// ----------------------------------------------------------------------------------

void Hash::set_value(std::string_view key, std::string_view value) {
  Hash leaf;
  leaf.append(value);
  set(key, std::move(leaf));
}

std::optional<std::string_view> Hash::value(std::string_view key) const {
  const Hash* below = get(key);
  if (!below || below->size() != 1) return std::nullopt;
  return below->elements_->front().key;
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
// -------------------------------------------------------------------------------

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
// ------------------------------------------------------------------------------------------

void Hash::sort(Order order) {
  if (empty()) return;
  elements_->sort([order](const Element& a, const Element& b) {
    return order == Order::kAscending ? a.key < b.key : b.key < a.key;
  });
}

void Hash::sort_int(Order order) {
  if (empty()) return;
  // Parse each key once, not once a comparison.
  std::unordered_map<const Element*, std::optional<std::int64_t>> numbers;
  numbers.reserve(size());
  for (const Element& element : *elements_) numbers[&element] = text::parse_int(element.key);
  elements_->sort([&numbers, order](const Element& a, const Element& b) {
    const auto& left = numbers.at(&a);
    const auto& right = numbers.at(&b);
    if (left.has_value() != right.has_value()) return left.has_value();
    if (!left) return a.key < b.key;
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
// -------------------------------------------------------------------------------------------

namespace {

void print_level(const Hash& hash, int indent, int depth, std::string& out) {
  for (const auto& element : hash.elements()) {
    out.append(static_cast<std::size_t>(indent * depth), ' ');
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
