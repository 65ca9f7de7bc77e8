#include "core/routing/deletions.hpp"

#include <algorithm>
#include <array>
#include <ctime>
#include <vector>

#include "core/base/log.hpp"
#include "core/routing/marker_store.hpp"
#include "flush/prefix_reader.hpp"

namespace scr::routing {

// A flush keeps the time; some file systems keep no more than microseconds or seconds of it.
bool is_time_of_copy(std::int64_t mtime_ns, std::int64_t written) {
  return std::ranges::any_of(
      std::array<std::int64_t, 3>{1, 1'000, 1'000'000'000},
      [&](std::int64_t grain) { return mtime_ns == written - written % grain; });
}

Status take_away(FileSystem& fs, const std::string& prefix, const Marker& deleted) {
  if (deleted.replaced) return {};
  const std::string absolute = prefix + "/" + deleted.file;
  auto info = fs.info(absolute);
  if (info.status().code() == StatusCode::kNotFound) return {};
  SCR_RETURN_IF_ERROR(info.status());
  const bool is_it = is_time_of_copy(info->mtime_ns, deleted.written);
  return is_it ? fs.remove_if_exists(absolute) : Status();
}

Result<bool> is_deleted(FileSystem& fs, const std::string& prefix, const std::string& relative,
                        const DatasetDescriptor& dataset, std::int64_t written) {
  const auto found = MarkerStore(fs, prefix).find_deletion(relative);
  if (found.status().code() == StatusCode::kCorrupt) return false;  // rather too many than too few
  SCR_RETURN_IF_ERROR(found.status());
  const std::optional<Marker>& note = *found;
  if (!note || dataset.created > note->created) return false;
  return note->replaced || written <= note->written;
}

Status take_away_deleted(FileSystem& fs, const std::string& prefix,
                         const std::set<std::pair<int, std::int64_t>>& flushed) {
  Status first;
  const auto keep = [&](const Marker& marker) {
    if (!marker.gone || !flushed.contains({marker.dataset, marker.created})) return true;
    const auto location = flush::locate(fs, prefix, marker.file, marker.dataset);
    const bool known = location.ok() || location.status().code() == StatusCode::kNotFound;
    if (!known || (location.ok() && location->file.contained())) return true;
    Status status = take_away(fs, prefix, marker);
    if (first.ok()) first = status;
    return !status.ok();
  };
  Status swept = MarkerStore(fs, prefix).sweep(/*part=*/0, /*parts=*/1, keep);
  return swept.ok() ? first : swept;
}

// Newer than all that was written before, also where times are coarse: who looks at a file and a
// version of it goes by the time, and takes away what a flush has brought.
Status make_newest(File& file, std::int64_t than) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  timespec now{};
  (void)::clock_gettime(CLOCK_REALTIME, &now);
  than = std::max(than, now.tv_sec * kSecond + now.tv_nsec);
  for (const std::int64_t step : {std::int64_t{1}, kSecond, 3 * kSecond}) {
    file.set_time(than + step);
    SCR_ASSIGN_OR_RETURN(const FileInfo info, file.info());
    if (info.mtime_ns > than) break;
  }
  return {};
}

Status make_newest(FileSystem& fs, const std::string& path) {
  auto file = fs.open(path, OpenOptions::read());
  if (file.status().code() == StatusCode::kNotFound) return {};
  SCR_RETURN_IF_ERROR(file.status());
  return make_newest(**file, 0);
}

Status outlive_deleted(FileSystem& fs, const std::string& prefix, const std::string& from,
                       const std::string& to) {
  std::vector<std::string> paths;
  SCR_RETURN_IF_ERROR(MarkerStore(fs, prefix).each([&](const Marker& marker) {
    if (marker.gone && marker.file.starts_with(to + "/"))
      paths.push_back(from + marker.file.substr(to.size()));
  }));
  for (const std::string& path : paths) SCR_RETURN_IF_ERROR(make_newest(fs, path));
  return {};
}

}  // namespace scr::routing
