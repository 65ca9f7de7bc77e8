// Fuzzes what scr_scavenge reads of others: reports of nodes, flush descriptors in filemaps, lists
// of ranks. What is accepted comes back from its own form, and stays inside containers.
#include <cstdlib>
#include <string_view>

#include "flush/flush_descriptor.hpp"
#include "flush/node_report.hpp"
#include "flush/summary.hpp"

namespace {

using scr::flush::FlushDescriptor;
using scr::flush::Layout;
using scr::flush::NodeReport;
using scr::flush::RankRanges;

void check_ranks(std::string_view text) {
  const auto ranks = RankRanges::from_text(text);
  if (!ranks.ok()) return;
  const auto again = RankRanges::from_text(ranks->to_text());
  if (!again.ok() || *again != *ranks) std::abort();
  int last = -2;
  for (const auto& [first, end] : ranks->ranges()) {
    if (first <= last + 1 || end < first || !ranks->contains(first) || !ranks->contains(end))
      std::abort();
    last = end;
  }
}

void check_layout(const std::string& text) {
  const auto layout = Layout::from_text(text);
  if (!layout.ok()) return;
  const auto again = Layout::from_text(layout->to_text());
  if (!again.ok() || *again != *layout) std::abort();
}

void check_report(const scr::Hash& hash) {
  const auto report = NodeReport::from_hash(hash);
  if (!report.ok()) return;
  const auto again = NodeReport::from_hash(report->to_hash());
  if (!again.ok() || *again != *report) std::abort();
}

void check_descriptor(scr::FilemapEntry entry) {
  const auto descriptor = FlushDescriptor::of(entry);
  if (!descriptor.ok()) return;
  for (const auto& [file, segments] : descriptor->segments) {
    std::uint64_t total = 0;
    for (const auto& segment : segments) {
      const auto index = scr::flush::container_index(segment.file);
      if (!index || *index >= scr::flush::kMaxContainers) std::abort();
      const std::uint64_t size = descriptor->layout.container_size;
      if (segment.offset > size || segment.length > size - segment.offset) std::abort();
      const auto begin = scr::flush::stream_offset(segment, size);
      if (begin + segment.length < begin || begin / size < *index) std::abort();
      total += segment.length;
    }
    const scr::FileMeta* meta = entry.find(file);
    if (meta == nullptr || meta->size != total) std::abort();
  }
  entry.flush = descriptor->to_hash();
  const auto again = FlushDescriptor::of(entry);
  if (!again.ok() || *again != *descriptor) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  check_ranks(text);
  check_layout(text);
  const auto hash = scr::Hash::unpack(std::as_bytes(std::span(data, size)));
  if (!hash.ok()) return 0;
  check_report(*hash);
  const auto filemap = scr::Filemap::from_hash(*hash);
  if (!filemap.ok()) return 0;
  for (const int id : filemap->datasets()) {
    for (const int rank : filemap->ranks(id)) check_descriptor(*filemap->get(rank, id));
  }
  return 0;
}
