#include "flush/node_report.hpp"

#include <fmt/format.h>

#include "core/base/log.hpp"
#include "core/base/path.hpp"
#include "core/base/text.hpp"

namespace scr::flush {

namespace {

constexpr std::string_view kEnd = ".scrnode";

Hash dataset_to_hash(const NodeDataset& dataset) {
  Hash hash;
  hash.set("DSETDESC", dataset.dataset.to_hash());
  hash.set_value("LAYOUT", dataset.layout.to_text());
  hash.set_value("RANKS", dataset.ranks.to_text());
  if (dataset.keep_newer) hash.at("KEEP_NEWER");
  if (dataset.in_prefix) hash.at("PFS");
  return hash;
}

Result<RankRanges> ranks_from_hash(const Hash& hash, std::string_view key) {
  SCR_ASSIGN_OR_RETURN(const std::string text, hash.require_value(key));
  auto ranks = RankRanges::from_text(text);
  if (!ranks.ok()) return corrupt(std::string(ranks.status().message()));
  return ranks;
}

Result<NodeDataset> dataset_from_hash(const Hash& hash) {
  NodeDataset dataset;
  const Hash* descriptor = hash.get("DSETDESC");
  if (descriptor == nullptr) return corrupt("key 'DSETDESC' is missing");
  SCR_ASSIGN_OR_RETURN(dataset.dataset, DatasetDescriptor::from_hash(*descriptor));
  SCR_ASSIGN_OR_RETURN(const std::string layout, hash.require_value("LAYOUT"));
  SCR_ASSIGN_OR_RETURN(dataset.layout, Layout::from_text(layout));
  SCR_ASSIGN_OR_RETURN(dataset.ranks, ranks_from_hash(hash, "RANKS"));
  dataset.keep_newer = hash.contains("KEEP_NEWER");
  dataset.in_prefix = hash.contains("PFS");
  return dataset;
}

}  // namespace

Hash NodeReport::to_hash() const {
  Hash hash;
  hash.set_value("HOST", host);
  if (absent) hash.at("ABSENT");
  if (!other_prefix.empty()) hash.set_value("PREFIX", other_prefix);
  if (!error.empty()) hash.set_value("ERROR", error);
  for (std::size_t i = 0; i < problems.size(); ++i)
    hash.at("PROBLEM").at(std::to_string(i)).set_value("TEXT", problems[i]);
  for (std::size_t i = 0; i < datasets.size(); ++i)
    hash.at("DSET").set(std::to_string(i), dataset_to_hash(datasets[i]));
  hash.set_value("COPIED", copied.to_text());
  hash.set_value("BYTES", bytes);
  return hash;
}

Result<NodeReport> NodeReport::from_hash(const Hash& hash) {
  NodeReport report;
  SCR_ASSIGN_OR_RETURN(report.host, hash.require_value("HOST"));
  SCR_RETURN_IF_ERROR(node_report_name(report.host).status());
  report.absent = hash.contains("ABSENT");
  report.other_prefix = std::string(hash.value("PREFIX").value_or(""));
  report.error = std::string(hash.value("ERROR").value_or(""));
  if (const Hash* problems = hash.get("PROBLEM")) {
    for (const auto& element : problems->elements()) {
      SCR_ASSIGN_OR_RETURN(std::string text, element.hash.require_value("TEXT"));
      report.problems.push_back(std::move(text));
    }
  }
  if (const Hash* datasets = hash.get("DSET")) {
    for (const auto& element : datasets->elements()) {
      SCR_ASSIGN_OR_RETURN(NodeDataset dataset, dataset_from_hash(element.hash));
      report.datasets.push_back(std::move(dataset));
    }
  }
  SCR_ASSIGN_OR_RETURN(report.copied, ranks_from_hash(hash, "COPIED"));
  SCR_ASSIGN_OR_RETURN(report.bytes, hash.require_uint("BYTES"));
  return report;
}

Result<std::string> node_report_name(const std::string& host) {
  if (host.find('/') != std::string::npos || !safe_relative_path(host).ok())
    return corrupt(fmt::format("'{}' is no name of a node", text::escape(host)));
  return host + std::string(kEnd);
}

Status write_node_report(FileSystem& fs, const std::string& directory, const NodeReport& report) {
  SCR_ASSIGN_OR_RETURN(const std::string name, node_report_name(report.host));
  SCR_ASSIGN_OR_RETURN(const auto opened, fs.open_directory(directory));
  return write_hash_file(fs, At(*opened, name), report.to_hash(), Durability::kDurable);
}

Result<std::map<std::string, NodeReport>> read_node_reports(FileSystem& fs,
                                                            const std::string& directory) {
  SCR_ASSIGN_OR_RETURN(const auto opened, fs.open_directory(directory));
  SCR_ASSIGN_OR_RETURN(const auto entries, fs.list(directory));
  std::map<std::string, NodeReport> reports;
  for (const DirectoryEntry& entry : entries) {
    if (!entry.name.ends_with(kEnd) || entry.name.starts_with('.')) continue;
    auto hash = read_hash_file(fs, At(*opened, entry.name));
    auto report = hash.ok() ? NodeReport::from_hash(*hash) : Result<NodeReport>(hash.status());
    if (report.ok() && report->host + std::string(kEnd) == entry.name) {
      const std::string host = report->host;
      reports.emplace(host, *std::move(report));
    } else {
      log::warning("the report '{}/{}' cannot be used: {}", directory, text::escape(entry.name),
                   report.ok() ? "it is that of another node" : report.status().message());
    }
  }
  return reports;
}

}  // namespace scr::flush
