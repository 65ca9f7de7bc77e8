#include "flush/rank_filemap.hpp"

#include <fmt/format.h>

#include <limits>

#include "core/base/text.hpp"
#include "core/shared_file/log.hpp"

namespace scr::flush {

std::string rank_filemap_name(int rank) { return fmt::format("{}{}", rank, kRankFilemapEnd); }

std::optional<int> rank_of_filemap_name(std::string_view name) {
  if (!name.ends_with(kRankFilemapEnd)) return std::nullopt;
  const auto rank = text::parse_uint(name.substr(0, name.size() - kRankFilemapEnd.size()));
  if (!rank || *rank >= std::numeric_limits<int>::max()) return std::nullopt;
  if (rank_filemap_name(static_cast<int>(*rank)) != name) return std::nullopt;
  return static_cast<int>(*rank);
}

bool is_redundancy_file_name(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return false;
  const std::string_view end = name.substr(dot);
  if (end != ".xor" && end != ".rs" && end != ".partner") return false;
  const auto words = text::split(name.substr(0, dot), '_');
  return words.size() == 5 && words[1] == "of" && words[3] == "in" && text::parse_uint(words[0]) &&
         text::parse_uint(words[2]) && text::parse_uint(words[4]);
}

Status check_rank_file(int rank, const FileMeta& meta) {
  const auto wrong = [&](std::string_view why) {
    return corrupt(fmt::format("lists '{}', which is {}", text::escape(meta.file), why));
  };
  if (meta.type != FileType::kFull) {
    if (is_redundancy_file_name(meta.file) && meta.shared.empty()) return {};
    return wrong("no name of redundancy data");
  }
  const std::string& name = meta.shared.empty() ? meta.file : meta.shared;
  if (name == ".scr" || name.starts_with(".scr/")) return wrong("h5scr's own");
  if (!meta.shared.empty() && meta.file != shared_file::log_name(meta.shared, rank))
    return wrong(fmt::format("no log of rank {} of '{}'", rank, text::escape(meta.shared)));
  return {};
}

Result<FilemapEntry> read_rank_filemap(FileSystem& fs, const Directory& directory, int rank,
                                       const DatasetDescriptor& dataset) {
  const At at(directory, rank_filemap_name(rank));
  SCR_ASSIGN_OR_RETURN(const Filemap filemap, read_filemap(fs, at));
  const FilemapEntry* entry = filemap.get(rank, dataset.id);
  const auto wrong = [&](std::string_view why) {
    return corrupt(fmt::format("'{}' {}", at.display(), why));
  };
  if (entry == nullptr || filemap.ranks().size() != 1 || filemap.datasets().size() != 1)
    return wrong(fmt::format("is not about rank {} in dataset {} alone", rank, dataset.id));
  if (entry->dataset.created != dataset.created) return wrong("is about another dataset");
  if (!entry->directory.empty()) return wrong("names a directory");
  for (const FileMeta& meta : entry->files) {
    const Status status = check_rank_file(rank, meta);
    if (!status.ok()) return wrong(status.message());
  }
  return *entry;
}

Status write_rank_filemap(FileSystem& fs, const Directory& directory, int rank,
                          FilemapEntry entry) {
  entry.directory.clear();
  entry.redundancy = Hash();
  Filemap filemap;
  const int id = entry.dataset.id;
  filemap.at(rank, id) = std::move(entry);
  return write_filemap(fs, At(directory, rank_filemap_name(rank)), filemap, Durability::kDurable);
}

}  // namespace scr::flush
