#include "tools/index/index_output.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/byte_size.hpp"
#include "core/base/text.hpp"

namespace scr::tools {
namespace {

using nlohmann::ordered_json;
using text::escape;
using vfd::Hdf5Attribute;
using vfd::Hdf5Object;

std::string size_text(std::uint64_t bytes) {
  return approximate_byte_size(static_cast<double>(bytes));
}

std::string value_or_dash(const std::optional<vfd::Hdf5Value>& value) {
  return value ? escape(value->text) : "-";
}

// Rows of cells as columns of equal width; numbers to the right, the last cell as it is.
std::string align(const std::vector<std::vector<std::string>>& rows,
                  const std::vector<bool>& to_the_right) {
  std::vector<std::size_t> widths(to_the_right.size(), 0);
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i + 1 < row.size(); ++i) {
      const std::string padding(widths[i] - row[i].size(), ' ');
      text += (to_the_right[i] ? padding + row[i] : row[i] + padding) + "  ";
    }
    text += row.back() + "\n";
  }
  return text;
}

std::string object_line(const Hdf5Object& object) {
  std::string line = fmt::format("  {:<30} ", escape(object.path));
  switch (object.kind) {
    case Hdf5Object::Kind::kSoftLink:
    case Hdf5Object::Kind::kExternalLink:
      return line + fmt::format("{} to {}\n", kind_name(object.kind), escape(object.target));
    case Hdf5Object::Kind::kDataset:
      line += fmt::format("{} {}, {}", escape(object.type), object.shape, object.layout);
      for (const std::string& filter : object.filters) line += ", " + filter;
      line += ", " + size_text(object.stored);
      break;
    case Hdf5Object::Kind::kDatatype:
      line += fmt::format("datatype {}", escape(object.type));
      break;
    default:
      line += kind_name(object.kind);
  }
  if (!object.target.empty()) line += fmt::format(", the same as {}", escape(object.target));
  return line + "\n";
}

std::string attribute_line(const Hdf5Attribute& attribute) {
  const bool quoted = attribute.value.kind == vfd::Hdf5Value::Kind::kText && attribute.value.scalar;
  const std::string quote = quoted ? "\"" : "";
  return fmt::format("    @{} = {}{}{}  ({}{}{})\n", escape(attribute.name), quote,
                     escape(attribute.value.text), quote, escape(attribute.type),
                     attribute.shape.empty() ? "" : " ", attribute.shape);
}

}  // namespace

std::string table(const std::vector<ListedDataset>& list, const std::vector<std::string>& columns) {
  std::vector<std::string> head = {"ID",    "",     "TYPE",    "STATE", "RANKS",
                                   "FILES", "SIZE", "CREATED", "WHERE"};
  std::vector<bool> right = {true, false, false, false, true, true, true, false, false};
  for (const std::string& column : columns) {
    head.push_back(escape(column));
    right.push_back(true);
  }
  head.emplace_back("NAME");
  right.push_back(false);
  std::vector<std::vector<std::string>> rows = {head};
  for (const ListedDataset& listed : list) {
    const DatasetRow& row = *listed.row;
    std::vector<std::string> cells = {std::to_string(row.dataset().id),
                                      row.current ? "*" : "",
                                      row.type(),
                                      row.state(),
                                      std::to_string(row.dataset().ranks),
                                      std::to_string(row.dataset().files),
                                      size_text(row.dataset().size),
                                      created_text(row.dataset()),
                                      row.where()};
    for (const auto& value : listed.values) cells.push_back(value_or_dash(value));
    cells.push_back(escape(row.dataset().name));
    rows.push_back(std::move(cells));
  }
  return align(rows, right);
}

ordered_json dataset_json(const DatasetRow& row) {
  const DatasetDescriptor& dataset = row.dataset();
  ordered_json where = ordered_json::array();
  if (row.in_cache()) where.push_back("cache");
  if (row.in_prefix) where.push_back(row.in_containers ? "containers" : "prefix");
  return {{"id", dataset.id},
          {"name", dataset.name},
          {"directory", row.entry.directory},
          {"checkpoint", dataset.checkpoint},
          {"output", dataset.output},
          {"created", created_text(dataset)},
          {"created_us", dataset.created},
          {"ranks", dataset.ranks},
          {"files", dataset.files},
          {"bytes", dataset.size},
          {"state", row.state()},
          {"complete", row.entry.complete},
          {"current", row.current},
          {"where", where},
          {"flushed", row.entry.flushed},
          {"fetched", row.entry.fetched},
          {"failed", row.entry.failed}};
}

ordered_json list_json(const std::vector<ListedDataset>& list,
                       const std::vector<std::string>& columns) {
  ordered_json all = ordered_json::array();
  for (const ListedDataset& listed : list) {
    ordered_json json = dataset_json(*listed.row);
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const auto& value = listed.values[i];
      json["attributes"][columns[i]] = value ? to_json(*value) : ordered_json();
    }
    all.push_back(std::move(json));
  }
  return all;
}

std::string title(const DatasetRow& row) {
  return fmt::format("{}: dataset {}, {}, {} rank(s), {} file(s), {}, created {}, in {}{}\n",
                     escape(row.dataset().name), row.dataset().id, row.state(), row.dataset().ranks,
                     row.dataset().files, size_text(row.dataset().size),
                     created_text(row.dataset()), row.where(), row.current ? ", current" : "");
}

std::string TreePrinter::attribute_lines(const Hdf5Object& object) const {
  std::string lines;
  for (const Hdf5Attribute& attribute : object.attributes) {
    const bool wanted =
        attributes_.empty() ||
        std::ranges::find(attributes_, attribute.name) != attributes_.end() ||
        std::ranges::find(attributes_, object.path + "@" + attribute.name) != attributes_.end();
    if (wanted) lines += attribute_line(attribute);
  }
  return lines;
}

std::string TreePrinter::print(const FileReport& report) {
  const DatasetFile& file = *report.file;
  std::string text = fmt::format("{}: rank {}, {}, {}", escape(file.name), file.rank,
                                 size_text(file.size), report.hdf5 ? "HDF5" : "not HDF5");
  std::string shape;
  std::string lines;
  for (const Hdf5Object& object : report.objects) {
    const std::string line = object_line(object);
    shape += line;
    lines += line + attribute_lines(object);
    for (const Hdf5Attribute& attribute : object.attributes) shape += attribute.name + "\n";
  }
  const bool repeated = !shape.empty() && shape == last_shape_;
  text += repeated ? fmt::format(", objects as in {}\n", escape(last_name_)) : "\n" + lines;
  for (const std::string& problem : report.problems) text += "  DAMAGED: " + problem + "\n";
  for (const std::string& note : report.notes) text += "  note: " + note + "\n";
  if (!repeated) {
    last_shape_ = shape;
    last_name_ = file.name;
  }
  return text;
}

ordered_json file_json(const DatasetFile& file) {
  ordered_json json = {{"file", file.name}, {"rank", file.rank}, {"bytes", file.size}};
  const bool contained = file.stored && file.stored->file.contained();
  json["where"] = !file.stored ? "cache" : contained ? "containers" : "prefix";
  return json;
}

ordered_json report_json(const FileReport& report, bool tree) {
  ordered_json json = file_json(*report.file);
  json["hdf5"] = report.hdf5;
  if (tree && report.hdf5) {
    json["objects"] = ordered_json::array();
    for (const Hdf5Object& object : report.objects) json["objects"].push_back(to_json(object));
  }
  if (!report.problems.empty()) json["problems"] = report.problems;
  if (!report.notes.empty()) json["notes"] = report.notes;
  return json;
}

ordered_json pair_json(const PairReport& report) {
  ordered_json json;
  const auto name = [](const DatasetFile* file) {
    return file != nullptr ? ordered_json(file->name) : ordered_json();
  };
  json["first"] = name(report.pair.first);
  json["second"] = name(report.pair.second);
  json["hdf5"] = report.hdf5;
  json["objects_compared"] = report.objects;
  json["difference_count"] = report.count;
  json["differences"] = ordered_json::array();
  for (const vfd::Difference& each : report.differences) {
    json["differences"].push_back({{"path", each.path}, {"what", each.what}});
  }
  if (!report.problems.empty()) json["problems"] = report.problems;
  return json;
}

std::string pair_text(const PairReport& report) {
  constexpr std::size_t kMostShown = 20;
  if (report.count == 0 && report.problems.empty()) return {};
  const DatasetFile* first = report.pair.first;
  const DatasetFile* second = report.pair.second;
  std::string text = escape((first != nullptr ? first : second)->name);
  if (first != nullptr && second != nullptr && first->name != second->name) {
    text += " and " + escape(second->name);
  }
  text += ":\n";
  for (std::size_t i = 0; i < std::min(report.differences.size(), kMostShown); ++i) {
    const vfd::Difference& each = report.differences[i];
    text += fmt::format("  {}{}{}\n", escape(each.path), each.path.empty() ? "" : ": ",
                        escape(each.what));
  }
  if (report.count > kMostShown) {
    text += fmt::format("  and {} more\n", report.count - kMostShown);
  }
  for (const std::string& problem : report.problems) text += "  PROBLEM: " + problem + "\n";
  return text;
}

std::string dump(const ordered_json& json) {
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace scr::tools
