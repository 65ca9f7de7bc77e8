#include "core/job/alone_jobs.hpp"

#include <limits>
#include <nlohmann/json.hpp>

#include "core/base/flush_file.hpp"
#include "core/base/job_directories.hpp"

namespace scr::job {
namespace {

constexpr std::string_view kJobStart = "scr.";

bool is_alone(std::string_view id, std::string_view job_id) {
  return id != job_id && is_of_job(id, job_id);
}

bool is_dataset_id(const nlohmann::json& value) {
  return value.is_number_unsigned() && value != 0U &&
         value.get<std::uint64_t>() <= std::uint64_t{std::numeric_limits<int>::max()};
}

}  // namespace

std::vector<AloneDataset> find_alone_datasets(FileSystem& fs,
                                              const std::string& control_directory) {
  std::vector<AloneDataset> found;
  const std::size_t slash = control_directory.rfind('/');
  if (slash == std::string::npos) return found;
  const std::string parent = control_directory.substr(0, slash);
  std::string_view own = std::string_view(control_directory).substr(slash + 1);
  if (!own.starts_with(kJobStart)) return found;
  own.remove_prefix(kJobStart.size());
  const auto entries = fs.list(parent);
  if (!entries.ok()) return found;
  for (const DirectoryEntry& entry : *entries) {
    if (!entry.name.starts_with(kJobStart)) continue;
    const std::string id = entry.name.substr(kJobStart.size());
    if (!is_alone(id, own)) continue;
    const auto flush =
        read_flush_file(fs, parent + "/" + entry.name + "/" + std::string(kFlushFileName));
    if (!flush.ok()) continue;
    for (const int dataset : flush->datasets_to_save()) {
      found.push_back({id, dataset, flush->get(dataset)->name});
    }
  }
  return found;
}

std::vector<AloneDataset> parse_alone_datasets(std::string_view json, std::string_view job_id) {
  std::vector<AloneDataset> found;
  const auto list = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!list.is_array()) return found;
  for (const auto& one : list) {
    if (!one.is_object()) continue;
    const auto job = one.find("job");
    const auto id = one.find("id");
    const auto name = one.find("name");
    const bool sound = job != one.end() && job->is_string() && id != one.end() &&
                       is_dataset_id(*id) && name != one.end() && name->is_string();
    if (!sound || !is_alone(job->get<std::string>(), job_id)) continue;
    found.push_back({job->get<std::string>(), id->get<int>(), name->get<std::string>()});
  }
  return found;
}

}  // namespace scr::job
