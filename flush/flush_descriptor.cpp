#include "flush/flush_descriptor.hpp"

#include <fmt/format.h>

#include <iterator>
#include <limits>

#include "core/base/text.hpp"
#include "flush/summary.hpp"

namespace scr::flush {

namespace {

constexpr std::string_view kSize = "CONTAINER_SIZE";
constexpr std::string_view kParity = "CONTAINER_PARITY";
constexpr std::string_view kKeepNewer = "KEEP_NEWER";
constexpr std::string_view kContainersText = "CONTAINERS";

// A segment of a container that can be: its name is that of a container, and it ends inside.
Status check_segment(const Segment& segment, std::uint64_t container_size) {
  const auto index = container_index(segment.file);
  if (!index || *index >= kMaxContainers)
    return corrupt(fmt::format("'{}' is no container", text::escape(segment.file)));
  // So that no place in the stream overflows.
  if (container_size > std::numeric_limits<std::uint64_t>::max() / (*index + 1))
    return corrupt("its containers have an impossible size");
  if (segment.offset > container_size || segment.length > container_size - segment.offset) {
    return corrupt(fmt::format("a segment of '{}' ends behind its container", segment.file));
  }
  return {};
}

}  // namespace

std::string Layout::to_text() const {
  if (!containers()) return "FILES";
  return fmt::format("{} {} {}", kContainersText, container_size, container_parity);
}

Result<Layout> Layout::from_text(const std::string& text) {
  if (text == "FILES") return Layout();
  const auto words = text::split(text, ' ');
  if (words.size() == 3 && words[0] == kContainersText) {
    const auto size = text::parse_uint(words[1]);
    const auto parity = text::parse_uint(words[2]);
    if (size && *size > 0 && parity && *parity <= kMaxContainerParity)
      return Layout{*size, *parity};
  }
  return corrupt(fmt::format("'{}' is no layout", text::escape(text)));
}

bool lies_in_container(const Layout& layout, const FileMeta& meta) {
  return layout.containers() && meta.type == FileType::kFull && meta.shared.empty();
}

std::vector<FinalFile> final_files(const std::vector<FileMeta>& files) {
  std::vector<FinalFile> own;
  std::vector<FinalFile> shared;
  for (const FileMeta& meta : files) {
    if (meta.type != FileType::kFull) continue;
    if (meta.shared.empty()) own.push_back({meta.file, meta.size, false});
    if (!meta.shared.empty() && meta.shared_size)
      shared.push_back({meta.shared, *meta.shared_size, true});
  }
  own.insert(own.end(), std::make_move_iterator(shared.begin()),
             std::make_move_iterator(shared.end()));
  return own;
}

Hash FlushDescriptor::to_hash() const {
  Hash hash;
  if (keep_newer) hash.at(kKeepNewer);
  if (!layout.containers()) return hash;
  hash.set_value(kSize, layout.container_size);
  if (layout.container_parity > 0) hash.set_value(kParity, layout.container_parity);
  for (const auto& [file, list] : segments)
    hash.at("FILE").at(file).set("SEG", segments_to_hash(list));
  return hash;
}

Result<FlushDescriptor> FlushDescriptor::of(const FilemapEntry& entry) {
  FlushDescriptor descriptor;
  descriptor.keep_newer = entry.flush.contains(kKeepNewer);
  if (!entry.flush.contains(kSize)) return descriptor;
  SCR_ASSIGN_OR_RETURN(descriptor.layout.container_size, entry.flush.require_uint(kSize));
  if (entry.flush.contains(kParity)) {
    SCR_ASSIGN_OR_RETURN(descriptor.layout.container_parity, entry.flush.require_uint(kParity));
  }
  if (descriptor.layout.container_size == 0 ||
      descriptor.layout.container_parity > kMaxContainerParity)
    return corrupt("its containers have an impossible size or parity");
  const Hash* files = entry.flush.get("FILE");
  for (const FinalFile& final_file : final_files(entry.files)) {
    const std::string& name = final_file.name;
    const Hash* file = files != nullptr ? files->get(name) : nullptr;
    const Hash* list = file != nullptr ? file->get("SEG") : nullptr;
    if (list == nullptr)
      return corrupt(fmt::format("file '{}' has no segments", text::escape(name)));
    auto read = segments_from_hash(*list, final_file.size);
    if (!read.ok()) return read.status().with_context(fmt::format("file '{}'", text::escape(name)));
    for (const Segment& segment : *read)
      SCR_RETURN_IF_ERROR(check_segment(segment, descriptor.layout.container_size));
    descriptor.segments[name] = std::move(*read);
  }
  return descriptor;
}

}  // namespace scr::flush
