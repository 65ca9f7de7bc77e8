#include "core/routing/marker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <limits>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/checksum.hpp"
#include "core/base/path.hpp"
#include "core/base/text.hpp"

namespace scr::routing {
namespace {

constexpr std::string_view kHead("\211HDF\r\n\032\n\377", kMarkerHeadSize);
constexpr std::string_view kVersionKey = "H5SCR_MARKER";
constexpr int kVersion = 1;
constexpr std::size_t kCrcLineSize = sizeof("CRC32=0x00000000\n") - 1;
// Together with the explanation and the other lines they fit kMarkerSize.
constexpr std::size_t kLongestFile = 2048;
constexpr std::size_t kLongestText = 255;

constexpr std::string_view kExplanation =
    "\nThis is not data. It keeps the name of a file whose data h5scr holds elsewhere: in the\n"
    "cache on the nodes of a job, or in containers below the .scr directory of the job's\n"
    "prefix directory. Programs that run with h5scr read that data under this name; all others\n"
    "refuse to open this file. 'scr_index' in the prefix directory lists what is stored there.\n"
    "When the file itself is copied to the prefix directory, it takes the place of this one.\n"
    "Do not edit or copy this file; removing it does not remove the data.\n\n";

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string crc_line(std::string_view before) {
  return fmt::format("CRC32={}\n", crc32_to_text(crc32(bytes_of(before))));
}

// --- fields: checked alike when written and when read

// A control character could begin a new line, or drive the terminal of who looks at the marker.
Status check_text(std::string_view key, std::string_view value) {
  const bool control = std::any_of(value.begin(), value.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7F;
  });
  if (control) return corrupt(fmt::format("{} has a control character", key));
  if (value.size() <= kLongestText) return {};
  return corrupt(fmt::format("{} is longer than {} bytes", key, kLongestText));
}

Status check_fields(const Marker& marker) {
  SCR_ASSIGN_OR_RETURN(const std::string safe, safe_relative_path(marker.file));
  if (safe.size() > kLongestFile) {
    return corrupt(fmt::format("FILE is longer than {} bytes", kLongestFile));
  }
  SCR_RETURN_IF_ERROR(check_text("JOB", marker.job));
  SCR_RETURN_IF_ERROR(check_text("HOST", marker.host));
  SCR_RETURN_IF_ERROR(check_text("SERVICE", marker.service));
  if (marker.dataset < 0) return corrupt("DATASET is negative");
  if (marker.rank < 0) return corrupt("RANK is negative");
  if (marker.created < 0) return corrupt("CREATED is negative");
  if (marker.written < 0) return corrupt("WRITTEN is negative");
  return {};
}

using Fields = std::map<std::string_view, std::string_view>;

// The lines KEY=value from the version to the first empty line.
Result<Fields> split_fields(std::string_view text) {
  const std::size_t start = text.find(fmt::format("\n{}=", kVersionKey));
  if (start == std::string_view::npos) return corrupt("it has no version");
  Fields fields;
  for (const std::string_view line : text::split(text.substr(start + 1), '\n')) {
    if (line.empty()) break;
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) return corrupt("it has a line that is not KEY=value");
    if (!fields.emplace(line.substr(0, equals), line.substr(equals + 1)).second) {
      return corrupt(fmt::format("{} is there twice", text::escape(line.substr(0, equals))));
    }
  }
  return fields;
}

Result<std::string> text_field(const Fields& fields, std::string_view key) {
  const auto found = fields.find(key);
  if (found == fields.end()) return corrupt(fmt::format("{} is missing", key));
  return std::string(found->second);
}

// A number of this type and nothing else; hexadecimal ones begin with 0x.
template <typename Number>
Result<Number> number_field(const Fields& fields, std::string_view key, int base = 10) {
  SCR_ASSIGN_OR_RETURN(const std::string text, text_field(fields, key));
  std::string_view digits = text;
  const bool prefixed = digits.starts_with("0x");
  if (base == 16 && prefixed) digits.remove_prefix(2);
  Number number{};
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), number, base);
  if (error != std::errc() || end != digits.data() + digits.size() || prefixed != (base == 16)) {
    return corrupt(fmt::format("{} is not a number: '{}'", key,
                               text::escape(std::string_view(text).substr(0, kLongestText))));
  }
  return number;
}

Result<Marker> marker_from(const Fields& fields) {
  SCR_ASSIGN_OR_RETURN(const int version, number_field<int>(fields, kVersionKey));
  if (version != kVersion) {
    return corrupt(fmt::format("it has version {}, this program knows {}", version, kVersion));
  }
  Marker marker;
  SCR_ASSIGN_OR_RETURN(marker.file, text_field(fields, "FILE"));
  SCR_ASSIGN_OR_RETURN(marker.id, number_field<std::uint64_t>(fields, "ID", 16));
  SCR_ASSIGN_OR_RETURN(marker.dataset, number_field<int>(fields, "DATASET"));
  SCR_ASSIGN_OR_RETURN(marker.rank, number_field<int>(fields, "RANK"));
  SCR_ASSIGN_OR_RETURN(marker.job, text_field(fields, "JOB"));
  SCR_ASSIGN_OR_RETURN(marker.host, text_field(fields, "HOST"));
  SCR_ASSIGN_OR_RETURN(marker.service, text_field(fields, "SERVICE"));
  SCR_ASSIGN_OR_RETURN(const int container, number_field<int>(fields, "CONTAINER"));
  if (container != 0 && container != 1) return corrupt("CONTAINER is neither 0 nor 1");
  marker.container = container == 1;
  SCR_ASSIGN_OR_RETURN(marker.generation, number_field<std::uint64_t>(fields, "GENERATION"));
  SCR_ASSIGN_OR_RETURN(marker.created, number_field<std::int64_t>(fields, "CREATED"));
  SCR_ASSIGN_OR_RETURN(marker.written, number_field<std::int64_t>(fields, "WRITTEN"));
  if (fields.contains("SHARED")) {
    SCR_ASSIGN_OR_RETURN(const int shared, number_field<int>(fields, "SHARED"));
    if (shared != 1) return corrupt("SHARED is not 1");
    marker.shared = true;
  }
  if (fields.contains("GONE")) {
    SCR_ASSIGN_OR_RETURN(const int gone, number_field<int>(fields, "GONE"));
    if (gone != 1) return corrupt("GONE is not 1");
    marker.gone = true;
  }
  if (fields.contains("REPLACED")) {
    SCR_ASSIGN_OR_RETURN(const int replaced, number_field<int>(fields, "REPLACED"));
    if (replaced != 1) return corrupt("REPLACED is not 1");
    marker.replaced = true;
  }
  SCR_RETURN_IF_ERROR(check_fields(marker));
  return marker;
}

// --- files

enum class Found { kNothing, kMarker, kDamagedMarker, kOtherFile };

struct Look {
  Found found = Found::kNothing;
  Marker marker{};  // for kMarker
  Status damage{};  // for kDamagedMarker
};

Result<Look> look_at(FileSystem& fs, const At& at, bool follow) {
  const Result<FileInfo> info = fs.info(at, follow);
  if (info.status().code() == StatusCode::kNotFound) return Look{};
  if (!info.ok()) return info.status();
  if (info->type != FileInfo::Type::kRegular || info->size != kMarkerSize) {
    return Look{.found = Found::kOtherFile};
  }
  OpenOptions options = OpenOptions::read();
  options.no_follow = !follow;
  const Result<std::unique_ptr<File>> file = fs.open(at, options);
  if (file.status().code() == StatusCode::kNotFound) return Look{};
  if (!file.ok()) return file.status();
  // One byte more: another file may have come under this name since.
  std::vector<std::byte> bytes(kMarkerSize + 1);
  SCR_ASSIGN_OR_RETURN(const std::size_t count, (*file)->read(bytes, 0));
  bytes.resize(count);
  if (count != kMarkerSize || !has_marker_head(bytes)) return Look{.found = Found::kOtherFile};
  Result<Marker> marker = decode(bytes);
  if (marker.ok()) return Look{.found = Found::kMarker, .marker = *std::move(marker)};
  return Look{.found = Found::kDamagedMarker,
              .damage = marker.status().with_context("'" + at.display() + "'")};
}

Result<bool> is_marker(FileSystem& fs, const At& at) {
  SCR_ASSIGN_OR_RETURN(const Look look, look_at(fs, at, /*follow=*/false));
  return look.found == Found::kMarker || look.found == Found::kDamagedMarker;
}

Status occupied(const At& at) {
  return {
      StatusCode::kFailedPrecondition,
      fmt::format("cannot put a marker at '{}': a file that is none has that name", at.display()),
      EEXIST};
}

// A real file was moved to a hidden name and cannot be given its own back: never silent.
Status stranded(const At& hidden, const At& at, const Status& why) {
  return {
      StatusCode::kInternal,
      fmt::format("the file '{}' is now '{}', since its name was taken at the same moment ({}); "
                  "rename it if you need it",
                  at.display(), hidden.display(), why.message())};
}

bool cannot_exchange(const Status& status) {
  const int why = status.errno_value();
  return why == EINVAL || why == ENOSYS || why == EOPNOTSUPP;
}

// A marker was at `at` a moment ago: the new one at `temporary` takes its place. Not a plain rename
// where that can be avoided: by an exchange a real file that came meanwhile is found, not lost.
// kNotFound if the name is free now. Afterwards `temporary` is gone unless that is the result.
Status replace_marker(FileSystem& fs, const At& temporary, const At& at) {
  const Status swapped = fs.exchange(temporary, at);
  if (cannot_exchange(swapped)) {
    Status renamed = fs.rename(temporary, at);
    if (!renamed.ok()) (void)fs.remove_if_exists(temporary);
    return renamed;
  }
  if (swapped.code() == StatusCode::kNotFound) return swapped;
  if (!swapped.ok()) {
    (void)fs.remove_if_exists(temporary);
    return swapped;
  }
  Result<bool> was_marker = is_marker(fs, temporary);
  if (was_marker.ok() && *was_marker) return fs.remove_if_exists(temporary);
  Status back = fs.exchange(temporary, at);
  if (!back.ok()) return stranded(temporary, at, back);
  // What came out now should be our marker again; if not, a second real file was faster.
  was_marker = is_marker(fs, temporary);
  if (!was_marker.ok() || !*was_marker) return stranded(temporary, at, occupied(at));
  (void)fs.remove_if_exists(temporary);
  return occupied(at);
}

// The file at `temporary` takes the name if that is free or a marker's. Afterwards `temporary` is
// gone.
Status take_name(FileSystem& fs, const At& temporary, const At& at) {
  constexpr int kMaxAttempts = 100;  // others may put and remove markers at the same time
  Status status;
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    status = fs.rename(temporary, at, /*exclusive=*/true);
    if (status.ok()) return status;
    if (status.errno_value() != EEXIST) break;
    const Result<Look> look = look_at(fs, at, /*follow=*/false);
    if (!look.ok() || look->found == Found::kOtherFile) {
      status = look.ok() ? occupied(at) : look.status();
      break;
    }
    if (look->found == Found::kNothing) continue;
    status = replace_marker(fs, temporary, at);
    if (status.code() != StatusCode::kNotFound) return status;
  }
  (void)fs.remove_if_exists(temporary);
  return status;
}

// With the mode of `like`, if there is one.
Status write_new(FileSystem& fs, const At& at, std::string_view bytes, mode_t mode,
                 const FileInfo* like) {
  OpenOptions options = OpenOptions::create_new();
  options.mode = mode;
  SCR_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, fs.open(at, options));
  SCR_RETURN_IF_ERROR(file->write_all(bytes_of(bytes), 0));
  if (like != nullptr) {
    SCR_ASSIGN_OR_RETURN(const FileInfo mine, file->info());
    if (mine.mode != like->mode) SCR_RETURN_IF_ERROR(file->set_mode(like->mode));
  }
  return file->close();
}

}  // namespace

Result<std::string> encode(const Marker& marker) {
  if (const Status checked = check_fields(marker); !checked.ok()) {
    return invalid_argument("cannot make a marker: " + std::string(checked.message()));
  }
  std::string text(kHead);
  text += kExplanation;
  text += fmt::format(
      "{}={}\nFILE={}\nID=0x{:016x}\nDATASET={}\nRANK={}\nJOB={}\nHOST={}\nSERVICE={}\n"
      "CONTAINER={}\nGENERATION={}\nCREATED={}\nWRITTEN={}\n{}{}{}",
      kVersionKey, kVersion, marker.file, marker.id, marker.dataset, marker.rank, marker.job,
      marker.host, marker.service, marker.container ? 1 : 0, marker.generation, marker.created,
      marker.written, marker.shared ? "SHARED=1\n" : "", marker.gone ? "GONE=1\n" : "",
      marker.replaced ? "REPLACED=1\n" : "");
  if (text.size() >= kMarkerSize - kCrcLineSize) {
    return internal_error("a marker is longer than its size");
  }
  text.resize(kMarkerSize - kCrcLineSize, '\n');
  text += crc_line(text);
  return text;
}

bool has_marker_head(std::span<const std::byte> bytes) { return text_of(bytes).starts_with(kHead); }

Result<Marker> decode(std::span<const std::byte> bytes) {
  const std::string_view text = text_of(bytes);
  const auto fail = [](std::string_view why) {
    return corrupt(fmt::format("damaged marker of h5scr: {}", why));
  };
  if (text.size() != kMarkerSize) return fail("it has not the size of a marker");
  if (!text.starts_with(kHead)) return fail("it does not begin like one");
  const std::string_view before = text.substr(0, kMarkerSize - kCrcLineSize);
  if (text.substr(before.size()) != crc_line(before)) return fail("its checksum is wrong");
  const Result<Fields> fields = split_fields(before);
  if (!fields.ok()) return fail(fields.status().message());
  Result<Marker> marker = marker_from(*fields);
  if (!marker.ok()) return fail(marker.status().message());
  return marker;
}

Result<std::optional<Marker>> read_marker(FileSystem& fs, const At& at) {
  SCR_ASSIGN_OR_RETURN(Look look, look_at(fs, at, /*follow=*/at.directory == nullptr));
  if (look.found == Found::kDamagedMarker) return look.damage;
  if (look.found != Found::kMarker) return std::optional<Marker>();
  return std::optional<Marker>(std::move(look.marker));
}

Status write_marker(FileSystem& fs, const At& at, const Marker& marker, mode_t mode) {
  SCR_ASSIGN_OR_RETURN(const std::string bytes, encode(marker));
  const At temporary = temporary_beside(at);
  // The user may have changed the mode of the one that is there, which the file will get.
  const Result<FileInfo> old = fs.info(at, /*follow=*/false);
  const bool replaces = old.ok() && old->type == FileInfo::Type::kRegular;
  Status written = write_new(fs, temporary, bytes, mode, replaces ? &*old : nullptr);
  if (written.ok()) return take_name(fs, temporary, at);
  (void)fs.remove_if_exists(temporary);
  return written;
}

Status remove_marker(FileSystem& fs, const At& at, const Marker& expected) {
  const auto is_expected = [&](const Look& look) {
    return look.found == Found::kMarker && look.marker.id == expected.id;
  };
  SCR_ASSIGN_OR_RETURN(const Look look, look_at(fs, at, /*follow=*/false));
  if (look.found == Found::kDamagedMarker) return look.damage;
  if (!is_expected(look)) return {};
  // Looked at once more under a hidden name, where no real file can come between look and removal.
  const At hidden = temporary_beside(at);
  const Status moved = fs.rename(at, hidden);
  if (moved.code() == StatusCode::kNotFound) return {};
  SCR_RETURN_IF_ERROR(moved);
  const Result<Look> again = look_at(fs, hidden, /*follow=*/false);
  if (again.ok() && is_expected(*again)) return fs.remove_if_exists(hidden);
  const Status back = fs.rename(hidden, at, /*exclusive=*/true);
  return back.ok() ? again.status() : stranded(hidden, at, back);
}

}  // namespace scr::routing
