#include "tools/index/dataset_list.hpp"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>

#include "core/base/config.hpp"
#include "core/base/job_directories.hpp"
#include "core/base/job_owner.hpp"
#include "core/base/path.hpp"
#include "core/base/text.hpp"
#include "flush/summary.hpp"

namespace scr::tools {
namespace {

std::string login_name() {
  const passwd* entry = ::getpwuid(::geteuid());
  return entry != nullptr ? entry->pw_name : std::to_string(::geteuid());
}

// --- cache

DatasetRow& row_of(std::vector<DatasetRow>& rows, const DatasetDescriptor& dataset) {
  for (DatasetRow& row : rows) {
    if (row.dataset().id == dataset.id && row.dataset().created == dataset.created) return row;
  }
  DatasetRow row;
  row.entry.dataset = dataset;
  return rows.emplace_back(std::move(row));
}

void add_filemap(const Filemap& filemap, std::vector<DatasetRow>& rows) {
  for (const int id : filemap.datasets()) {
    for (const int rank : filemap.ranks(id)) {
      const FilemapEntry& entry = *filemap.get(rank, id);
      DatasetRow& row = row_of(rows, entry.dataset);
      if (!row.in_prefix) row.entry.complete = entry.dataset.complete;
      row.cached.push_back(entry);
      row.cached_ranks.push_back(rank);
    }
  }
}

Status add_job(FileSystem& fs, const Directory& control, const std::string& prefix,
               std::vector<DatasetRow>& rows, std::vector<std::string>& warnings) {
  auto names = read_master_filemap(fs, At(control, std::string(kMasterFilemapName)));
  if (names.status().code() == StatusCode::kNotFound) return {};  // a cache directory
  SCR_RETURN_IF_ERROR(names.status());
  SCR_ASSIGN_OR_RETURN(const JobOwnerInfo owner, read_owner_file(fs, control));
  if (owner.prefix != prefix) return {};
  for (const std::string& name : *names) {
    auto filemap = read_filemap(fs, At(control, name));
    if (filemap.ok()) {
      add_filemap(*filemap, rows);
    } else if (filemap.status().code() != StatusCode::kNotFound) {
      warnings.emplace_back(filemap.status().message());
    }
  }
  return {};
}

void add_cached(FileSystem& fs, const std::string& prefix, const CacheOptions& cache,
                std::vector<DatasetRow>& rows, std::vector<std::string>& warnings) {
  const FoundJobs found = find_job_directories(fs, cache.bases, cache.user, std::nullopt);
  for (const auto& [who, directories] : found.jobs) {
    for (const JobDirectory& job : directories) {
      if (!job.fault.empty()) continue;  // not made by us
      const Status added = add_job(fs, *job.directory, prefix, rows, warnings);
      // A job that ends just now takes its directories along.
      if (!added.ok() && added.code() != StatusCode::kNotFound) {
        warnings.emplace_back(added.message());
      }
    }
  }
}

// --- prefix

DatasetRow indexed_row(FileSystem& fs, const std::string& prefix, const flush::Index& index,
                       const flush::IndexEntry& entry) {
  DatasetRow row;
  row.entry = entry;
  row.current = entry.directory == index.current();
  row.in_prefix = true;
  const auto summary = flush::read_summary(fs, prefix + "/.scr/" + entry.directory);
  if (summary.ok()) {
    row.in_containers = summary->containers;
  } else {
    row.damage = summary.status().message();
  }
  return row;
}

bool is_newer(const DatasetRow& one, const DatasetRow& other) {
  return std::pair(one.dataset().id, one.dataset().created) >
         std::pair(other.dataset().id, other.dataset().created);
}

}  // namespace

std::string DatasetRow::where() const {
  std::string place = in_containers ? "containers" : in_prefix ? "prefix" : "";
  if (!in_cache()) return place;
  return place.empty() ? "cache" : "cache+" + place;
}

const char* DatasetRow::state() const {
  if (!entry.failed.empty()) return "failed";  // a restart has tried it
  if (!damage.empty()) return "damaged";
  return entry.complete ? "complete" : "partial";
}

const char* DatasetRow::type() const {
  return dataset().is_checkpoint() ? (dataset().output ? "both" : "ckpt") : "out";
}

Result<CacheOptions> cache_options_in_force(FileSystem& fs, const std::string& prefix) {
  config::Environment environment = config::Environment::current();
  environment.set("SCR_PREFIX", prefix);
  SCR_ASSIGN_OR_RETURN(auto sources, config::read_files(fs, environment));
  SCR_ASSIGN_OR_RETURN(auto config, config::Config::build(std::move(sources)));
  CacheOptions options;
  options.user = config.get_string("SCR_USER_NAME");
  if (options.user.empty()) options.user = login_name();
  options.bases = {config.get_path("SCR_CNTL_BASE")};
  return options;
}

Result<std::vector<DatasetRow>> list_datasets(FileSystem& fs, const std::string& prefix,
                                              const CacheOptions& cache,
                                              std::vector<std::string>& warnings) {
  SCR_ASSIGN_OR_RETURN(const flush::Index index, flush::read_index(fs, prefix));
  std::vector<DatasetRow> rows;
  rows.reserve(index.entries().size());
  for (const flush::IndexEntry& entry : index.entries()) {
    rows.push_back(indexed_row(fs, prefix, index, entry));
    if (!rows.back().damage.empty()) warnings.push_back(rows.back().damage);
  }
  if (!cache.bases.empty()) add_cached(fs, prefix, cache, rows, warnings);
  std::stable_sort(rows.begin(), rows.end(), is_newer);
  return rows;
}

Result<DatasetRow> find_dataset(const std::vector<DatasetRow>& rows, const std::string& name) {
  const auto number = text::parse_int(name);
  const auto named = [&](const DatasetRow& row) { return row.dataset().name == name; };
  const auto numbered = [&](const DatasetRow& row) {
    return (row.in_prefix && row.entry.directory == name) ||
           (number && row.dataset().id == *number);
  };
  for (const bool in_prefix : {true, false}) {
    for (const DatasetRow& row : rows) {
      if (row.in_prefix == in_prefix && named(row)) return row;
    }
  }
  for (const DatasetRow& row : rows) {
    if (numbered(row)) return row;
  }
  return not_found(
      fmt::format("there is no dataset '{}'; 'scr_index' lists them", text::escape(name)));
}

std::string created_text(const DatasetDescriptor& dataset) {
  const std::time_t seconds = static_cast<std::time_t>(dataset.created / 1'000'000);
  std::tm parts{};
  if (::gmtime_r(&seconds, &parts) == nullptr) return "?";
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

}  // namespace scr::tools
