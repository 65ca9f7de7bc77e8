#include "core/routing/marker_store.hpp"

#include <fmt/format.h>

#include "core/base/checksum.hpp"
#include "core/base/log.hpp"

namespace scr::routing {

namespace {

constexpr unsigned kFolders = 64;  // so that no directory gets all notes of a large run

std::uint32_t crc_of(const std::string& text) { return crc32(std::as_bytes(std::span(text))); }

Result<std::vector<std::string>> notes_in(FileSystem& fs, const std::string& prefix,
                                          unsigned folder) {
  const std::string directory = fmt::format("{}/.scr/markers/{:02}", prefix, folder);
  const auto names = fs.list(directory);
  std::vector<std::string> paths;
  if (names.status().code() == StatusCode::kNotFound) return paths;
  SCR_RETURN_IF_ERROR(names.status());
  for (const DirectoryEntry& name : *names) paths.push_back(directory + "/" + name.name);
  return paths;
}

}  // namespace

std::string MarkerStore::note_path(const std::string& relative) const {
  const std::uint32_t crc = crc_of(relative);
  return fmt::format("{}/.scr/markers/{:02}/{:08x}{:08x}", prefix_, crc % kFolders, crc,
                     crc_of("note:" + relative));
}

Status MarkerStore::put(const Marker& marker, Visible visible) {
  const std::string note = note_path(marker.file);
  SCR_RETURN_IF_ERROR(fs_.make_directories(note.substr(0, note.rfind('/'))));
  SCR_RETURN_IF_ERROR(write_marker(fs_, note, marker));
  if (visible == Visible::kNo) return {};
  Status status = write_marker(fs_, path(marker.file), marker);
  return status.errno_value() == EEXIST ? Status() : status;
}

Status MarkerStore::drop(const Marker& marker) {
  Status status = remove_marker(fs_, path(marker.file), marker);
  Status note = remove_marker(fs_, note_path(marker.file), marker);
  return status.ok() ? note : status;
}

Status MarkerStore::bury(Marker marker) {
  // The one at the name may be of an older version.
  SCR_ASSIGN_OR_RETURN(const auto visible, read_marker(fs_, path(marker.file)));
  if (visible && visible->file == marker.file && visible->dataset <= marker.dataset) {
    SCR_RETURN_IF_ERROR(remove_marker(fs_, path(marker.file), *visible));
  }
  marker.gone = true;
  marker.replaced = false;
  return put(marker, Visible::kNo);
}

Status MarkerStore::bury_replaced(Marker marker) {
  marker.gone = true;
  marker.replaced = true;
  return put(marker, Visible::kNo);
}

Result<std::optional<Marker>> MarkerStore::find_note(const std::string& relative) {
  SCR_ASSIGN_OR_RETURN(auto note, read_marker(fs_, note_path(relative)));
  return note && note->file == relative ? note : std::nullopt;
}

Result<std::optional<Marker>> MarkerStore::find_deletion(const std::string& relative) {
  SCR_ASSIGN_OR_RETURN(auto note, find_note(relative));
  if (!note || !note->gone) return std::optional<Marker>();
  if (!note->replaced) return note;
  const auto info = fs_.info(path(relative));
  if (info.status().code() == StatusCode::kNotFound) return std::optional<Marker>();
  SCR_RETURN_IF_ERROR(info.status());
  SCR_ASSIGN_OR_RETURN(const auto visible, read_marker(fs_, path(relative)));
  // A link is a file of its own, whatever it leads to.
  const bool real = info->type != FileInfo::Type::kRegular || !visible;
  return real ? note : std::nullopt;
}

Status MarkerStore::forget_deletion(const std::string& relative, int dataset) {
  SCR_ASSIGN_OR_RETURN(const auto note, find_note(relative));
  if (!note || !note->gone || note->dataset != dataset) return {};
  return remove_marker(fs_, note_path(relative), *note);
}

Result<std::optional<Marker>> MarkerStore::find(const std::string& relative) {
  auto note = read_marker(fs_, note_path(relative));
  // Two names with one note: the visible marker decides.
  if (note.ok() && note->has_value() && !(*note)->gone && (*note)->file == relative) return note;
  return read_marker(fs_, path(relative));
}

Result<bool> MarkerStore::any() {
  for (unsigned folder = 0; folder < kFolders; ++folder) {
    SCR_ASSIGN_OR_RETURN(const auto notes, notes_in(fs_, prefix_, folder));
    if (!notes.empty()) return true;
  }
  return false;
}

Status MarkerStore::sweep(int part, int parts, const std::function<bool(const Marker&)>& keep) {
  for (unsigned folder = 0; folder < kFolders; ++folder) {
    if (static_cast<int>(folder) % parts != part) continue;
    SCR_ASSIGN_OR_RETURN(const auto notes, notes_in(fs_, prefix_, folder));
    for (const std::string& path : notes) {
      auto marker = read_marker(fs_, path);
      if (!marker.ok() && marker.status().code() != StatusCode::kCorrupt) return marker.status();
      if (!marker.ok() || !*marker) {
        log::warning("'{}' is no marker; it is removed", path);
        SCR_RETURN_IF_ERROR(fs_.remove_if_exists(path));
      } else if (!keep(**marker)) {
        SCR_RETURN_IF_ERROR(drop(**marker));
      }
    }
  }
  return {};
}

Status MarkerStore::each(const std::function<void(const Marker&)>& visit) {
  for (unsigned folder = 0; folder < kFolders; ++folder) {
    SCR_ASSIGN_OR_RETURN(const auto notes, notes_in(fs_, prefix_, folder));
    for (const std::string& path : notes) {
      auto marker = read_marker(fs_, path);
      if (marker.ok() && *marker) visit(**marker);
    }
  }
  return {};
}

}  // namespace scr::routing
