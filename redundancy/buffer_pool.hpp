// BufferPool: aligned buffers of one size, kept for reuse so that they stay in the processor's
// cache.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "redundancy/combination.hpp"

namespace scr::redundancy {

class BufferPool {
 public:
  explicit BufferPool(std::size_t size) : size_(size) {}

  // The buffer used last comes first: it is the one still in the cache.
  std::byte* take() {
    if (free_.empty()) {
      all_.emplace_back(static_cast<std::byte*>(::operator new(size_, kAlignment)));
      return all_.back().get();
    }
    std::byte* buffer = free_.back();
    free_.pop_back();
    return buffer;
  }
  void give_back(std::byte* buffer) { free_.push_back(buffer); }

 private:
  static constexpr std::align_val_t kAlignment{4096};
  struct Free {
    void operator()(std::byte* buffer) const { ::operator delete(buffer, kAlignment); }
  };
  std::size_t size_;
  std::vector<std::unique_ptr<std::byte, Free>> all_;
  std::vector<std::byte*> free_;
};

}  // namespace scr::redundancy
