// What scr_index prints: tables and trees for people, JSON for scripts.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/index/dataset_list.hpp"
#include "tools/index/inspect.hpp"

namespace scr::tools {

// A line of the list, with the attributes asked for.
struct ListedDataset {
  const DatasetRow* row = nullptr;
  Values values = {};
};

std::string table(const std::vector<ListedDataset>& list, const std::vector<std::string>& columns);
nlohmann::ordered_json list_json(const std::vector<ListedDataset>& list,
                                 const std::vector<std::string>& columns);
nlohmann::ordered_json dataset_json(const DatasetRow& row);

// One dataset in a line, as a title.
std::string title(const DatasetRow& row);

// The trees of files, one after the other. Files of ranks mostly look alike: the tree of one that
// has the same objects as the one before is not written again.
class TreePrinter {
 public:
  // `attributes`: names of those to show; empty: all.
  explicit TreePrinter(std::vector<std::string> attributes) : attributes_(std::move(attributes)) {}
  std::string print(const FileReport& report);

 private:
  std::string attribute_lines(const vfd::Hdf5Object& object) const;
  std::vector<std::string> attributes_;
  std::string last_shape_;
  std::string last_name_;
};

nlohmann::ordered_json file_json(const DatasetFile& file);
nlohmann::ordered_json report_json(const FileReport& report, bool tree);
nlohmann::ordered_json pair_json(const PairReport& report);
std::string pair_text(const PairReport& report);

std::string dump(const nlohmann::ordered_json& json);

}  // namespace scr::tools
