#include "tools/index/inspect.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/text.hpp"
#include "tools/index/hdf5_worker.hpp"

namespace scr::tools {
namespace {

using nlohmann::json;
using vfd::Hdf5Attribute;
using vfd::Hdf5Object;
using vfd::Hdf5Value;

// --- objects through the pipe -----------------------------------------------------------------

json pack(const Hdf5Value& value) {
  return json::array({static_cast<int>(value.kind), value.text, value.scalar});
}

Hdf5Value unpack_value(const json& packed) {
  Hdf5Value value;
  value.kind = static_cast<Hdf5Value::Kind>(packed.at(0).get<int>());
  value.text = packed.at(1);
  value.scalar = packed.at(2);
  return value;
}

json pack(const Hdf5Object& object) {
  json attributes = json::array();
  for (const Hdf5Attribute& each : object.attributes) {
    attributes.push_back(json::array({each.name, each.type, each.shape, pack(each.value)}));
  }
  return json::array({static_cast<int>(object.kind), object.path, object.target, object.type,
                      object.shape, object.layout, object.filters, object.stored, attributes});
}

Hdf5Object unpack_object(const json& packed) {
  Hdf5Object object;
  object.kind = static_cast<Hdf5Object::Kind>(packed.at(0).get<int>());
  object.path = packed.at(1);
  object.target = packed.at(2);
  object.type = packed.at(3);
  object.shape = packed.at(4);
  object.layout = packed.at(5);
  object.filters = packed.at(6).get<std::vector<std::string>>();
  object.stored = packed.at(7);
  for (const json& each : packed.at(8)) {
    object.attributes.push_back({each.at(0), each.at(1), each.at(2), unpack_value(each.at(3))});
  }
  return object;
}

class WalkSender final : public vfd::WalkSink {
 public:
  WalkSender(WorkerChannel& channel, bool objects) : channel_(channel), objects_(objects) {}
  void object(const Hdf5Object& object) override {
    if (objects_) channel_.send({{"object", pack(object)}});
  }
  void problem(const std::string& text) override { channel_.send({{"problem", text}}); }
  void note(const std::string& text) override { channel_.send({{"note", text}}); }
  void alive() override { channel_.alive(); }

 private:
  WorkerChannel& channel_;
  bool objects_;
};

class CompareSender final : public vfd::CompareSink {
 public:
  explicit CompareSender(WorkerChannel& channel) : channel_(channel) {}
  void difference(const vfd::Difference& difference) override {
    channel_.send({{"path", difference.path}, {"what", difference.what}});
  }
  void compared(std::uint64_t objects) override { channel_.send({{"objects", objects}}); }
  void problem(const std::string& text) override { channel_.send({{"problem", text}}); }
  void alive() override { channel_.alive(); }

 private:
  WorkerChannel& channel_;
};

void receive(FileReport& report, const json& message) {
  if (message.contains("object")) report.objects.push_back(unpack_object(message["object"]));
  if (message.contains("problem")) report.problems.push_back(message["problem"]);
  if (message.contains("note")) report.notes.push_back(message["note"]);
}

void receive(PairReport& report, const json& message) {
  constexpr std::size_t kMostKept = 1000;
  if (message.contains("path")) {
    ++report.count;
    if (report.differences.size() < kMostKept) {
      report.differences.push_back({message["path"], message["what"]});
    }
  }
  if (message.contains("objects")) report.objects = message["objects"];
  if (message.contains("problem")) report.problems.push_back(message["problem"]);
}

// --- without HDF5 -----------------------------------------------------------------------------

FileReport look_without_hdf5(FileSystem& fs, const std::string& prefix, const DatasetFile& file,
                             Depth depth) {
  FileReport report;
  report.file = &file;
  if (file.only_logs) {
    report.notes.push_back(only_logs_text(file));
    return report;
  }
  if (depth == Depth::kCheck) {
    const Status good = verify_file(fs, prefix, file);
    if (!good.ok()) report.problems.emplace_back(good.message());
  }
  auto opened = open_file(fs, prefix, file);
  auto is = opened.ok() ? is_hdf5(**opened) : Result<bool>(opened.status());
  report.hdf5 = is.ok() && *is;
  if (!is.ok() && report.problems.empty()) report.problems.emplace_back(is.status().message());
  return report;
}

void compare_without_hdf5(PairReport& report) {
  const auto differ = [&](std::string what) {
    report.count = 1;
    report.differences.push_back({"", std::move(what)});
  };
  if (report.pair.first == nullptr) return differ("only in the second");
  if (report.pair.second == nullptr) return differ("only in the first");
  const DatasetFile& one = *report.pair.first;
  const DatasetFile& other = *report.pair.second;
  for (const DatasetFile* file : {&one, &other}) {
    if (file->only_logs) return report.problems.push_back(only_logs_text(*file));
  }
  if (one.size != other.size) {
    return differ(fmt::format("not HDF5; sizes differ: {}, {}", one.size, other.size));
  }
  if (!one.crc || !other.crc) {
    report.problems.emplace_back("not HDF5, and not sealed: it is not compared");
  } else if (*one.crc != *other.crc) {
    differ("not HDF5; contents differ");
  }
}

bool has_signature(FileSystem& fs, const std::string& prefix, const DatasetFile* file) {
  if (file == nullptr) return false;
  auto opened = open_file(fs, prefix, *file);
  auto is = opened.ok() ? is_hdf5(**opened) : Result<bool>(opened.status());
  return is.ok() && *is;
}

// Runs `work` on those of `reports` that are HDF5, and gives all to `report` in their order.
template <typename Report>
Status run_on_reports(std::vector<Report>& reports, Hdf5Work work, const InspectOptions& options,
                      const std::function<void(const Report&)>& report) {
  std::vector<std::size_t> pieces;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    if (reports[i].hdf5) pieces.push_back(i);
  }
  std::size_t given = 0;
  const auto give_up_to = [&](std::size_t end) {
    for (; given < end; ++given) {
      if (options.progress) options.progress(given + 1);
      report(reports[given]);
      reports[given] = {};  // a tree may be large
    }
  };
  work.count = pieces.size();
  work.patience = options.patience;
  work.library = options.library;
  const auto run = work.run;
  work.run = [&pieces, run](std::size_t piece, vfd::Hdf5Reader& reader, WorkerChannel& channel) {
    run(pieces[piece], reader, channel);
  };
  work.received = [&](std::size_t piece, const json& message) {
    receive(reports[pieces[piece]], message);
  };
  work.finished = [&](std::size_t piece, const Status& how) {
    if (!how.ok()) reports[pieces[piece]].problems.emplace_back(how.message());
    give_up_to(pieces[piece] + 1);
  };
  const Status status = run_hdf5_work(work);
  give_up_to(reports.size());
  return status;
}

}  // namespace

Status inspect_files(FileSystem& fs, const std::string& prefix,
                     const std::vector<DatasetContents>& datasets, Depth depth,
                     const InspectOptions& options,
                     const std::function<void(const FileReport&)>& report) {
  std::vector<FileReport> reports;
  std::vector<DatasetSource> sources;
  sources.reserve(datasets.size());
  for (const DatasetContents& dataset : datasets) {
    for (const DatasetFile& file : dataset.files) {
      reports.push_back(look_without_hdf5(fs, prefix, file, depth));
      reports.back().dataset = sources.size();
      // The checksums are half of the work.
      if (options.progress && depth == Depth::kCheck) options.progress(reports.size() / 2);
    }
    sources.emplace_back(fs, prefix, dataset.files);
  }
  Hdf5Work work;
  work.run = [&](std::size_t i, vfd::Hdf5Reader& reader, WorkerChannel& channel) {
    WalkSender sender(channel, depth == Depth::kTree);
    DatasetSource& source = sources[reports[i].dataset];
    reader.walk(source, source.path_of(*reports[i].file), {true, depth == Depth::kCheck}, sender);
  };
  return run_on_reports<FileReport>(reports, std::move(work), options, report);
}

Status find_values(FileSystem& fs, const std::string& prefix, const std::vector<DatasetRow>& rows,
                   const std::vector<std::string>& names, const InspectOptions& options,
                   const std::function<void(std::size_t row, const Values& values,
                                            const std::vector<std::string>& problems)>& found) {
  constexpr std::size_t kMostFiles = 16;  // to look into, of each dataset
  Values values(names.size());
  std::vector<std::string> problems;
  Hdf5Work work;
  work.count = rows.size();
  work.patience = options.patience;
  work.library = options.library;
  work.run = [&](std::size_t row, vfd::Hdf5Reader& reader, WorkerChannel& channel) {
    const auto files = files_of(fs, prefix, rows[row], "", /*first_block_only=*/true);
    if (!files.ok()) return channel.send({{"problem", files.status().message()}});
    DatasetSource source(fs, prefix, *files);
    std::vector<bool> have(names.size(), false);
    std::size_t looked = 0;
    for (const DatasetFile& file : *files) {
      if (!has_signature(fs, prefix, &file)) continue;
      if (++looked > kMostFiles || std::ranges::count(have, false) == 0) break;
      for (std::size_t i = 0; i < names.size(); ++i) {
        if (have[i]) continue;
        auto value = reader.find_value(source, source.path_of(file), names[i]);
        if (!value.ok()) channel.send({{"problem", value.status().message()}});
        if (!value.ok()) break;
        if (!*value) continue;
        have[i] = true;
        channel.send({{"name", i}, {"value", pack(**value)}});
      }
    }
  };
  work.received = [&](std::size_t, const json& message) {
    if (message.contains("problem")) problems.push_back(message["problem"]);
    if (message.contains("name")) {
      values.at(message["name"].get<std::size_t>()) = unpack_value(message["value"]);
    }
  };
  work.finished = [&](std::size_t row, const Status& how) {
    if (!how.ok()) problems.emplace_back(how.message());
    if (options.progress) options.progress(row + 1);
    found(row, values, problems);
    values.assign(names.size(), std::nullopt);
    problems.clear();
  };
  return run_hdf5_work(work);
}

std::vector<FilePair> pair_files(const std::vector<DatasetFile>& first,
                                 const std::vector<DatasetFile>& second) {
  std::map<std::string, const DatasetFile*> by_name;
  for (const DatasetFile& file : second) by_name.emplace(file.name, &file);
  std::vector<FilePair> pairs;
  for (const DatasetFile& file : first) {
    FilePair& pair = pairs.emplace_back(FilePair{&file, nullptr});
    if (const auto found = by_name.find(file.name); found != by_name.end()) {
      pair.second = found->second;
      by_name.erase(found);
    }
  }
  std::map<int, std::vector<const DatasetFile*>> left;  // of the second, by rank, last one first
  for (auto file = second.rbegin(); file != second.rend(); ++file) {
    const auto found = by_name.find(file->name);
    if (found != by_name.end() && found->second == &*file) left[file->rank].push_back(&*file);
  }
  for (FilePair& pair : pairs) {
    auto& candidates = left[pair.first->rank];
    if (pair.second != nullptr || candidates.empty()) continue;
    pair.second = candidates.back();
    candidates.pop_back();
  }
  for (auto& [rank, candidates] : left) {
    for (auto file = candidates.rbegin(); file != candidates.rend(); ++file) {
      pairs.push_back({nullptr, *file});
    }
  }
  return pairs;
}

Status compare_files(FileSystem& fs, const std::string& prefix,
                     const std::vector<DatasetFile>& first, const std::vector<DatasetFile>& second,
                     const InspectOptions& options,
                     const std::function<void(const PairReport&)>& report) {
  const std::vector<FilePair> pairs = pair_files(first, second);
  std::vector<PairReport> reports;
  reports.reserve(pairs.size());
  for (const FilePair& pair : pairs) {
    PairReport& each = reports.emplace_back();
    each.pair = pair;
    each.hdf5 = has_signature(fs, prefix, pair.first) && has_signature(fs, prefix, pair.second);
    if (!each.hdf5) compare_without_hdf5(each);
  }
  DatasetSource one(fs, prefix, first);
  DatasetSource other(fs, prefix, second);
  Hdf5Work work;
  work.run = [&](std::size_t i, vfd::Hdf5Reader& reader, WorkerChannel& channel) {
    CompareSender sender(channel);
    reader.compare(one, one.path_of(*pairs[i].first), other, other.path_of(*pairs[i].second),
                   sender);
  };
  return run_on_reports<PairReport>(reports, std::move(work), options, report);
}

nlohmann::ordered_json to_json(const Hdf5Value& value) {
  if (value.kind == Hdf5Value::Kind::kNumber && value.scalar) {
    if (const auto number = text::parse_int(value.text)) return *number;
    if (const auto number = text::parse_double(value.text)) return *number;
  }
  return value.text;
}

nlohmann::ordered_json to_json(const Hdf5Object& object) {
  nlohmann::ordered_json json = {{"path", object.path}, {"kind", kind_name(object.kind)}};
  if (!object.target.empty()) json["target"] = object.target;
  if (!object.type.empty()) json["type"] = object.type;
  if (!object.shape.empty()) json["shape"] = object.shape;
  if (!object.layout.empty()) json["layout"] = object.layout;
  if (!object.filters.empty()) json["filters"] = object.filters;
  if (object.kind == Hdf5Object::Kind::kDataset) json["stored_bytes"] = object.stored;
  if (object.attributes.empty()) return json;
  json["attributes"] = nlohmann::ordered_json::array();
  for (const Hdf5Attribute& each : object.attributes) {
    nlohmann::ordered_json attribute = {{"name", each.name}, {"type", each.type}};
    if (!each.shape.empty()) attribute["shape"] = each.shape;
    attribute["value"] = to_json(each.value);
    json["attributes"].push_back(std::move(attribute));
  }
  return json;
}

}  // namespace scr::tools
