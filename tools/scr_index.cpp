// scr_index: shows and changes the index of a prefix directory, and looks into the HDF5 files of
// its datasets. The work is in tools/index.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/base/byte_size.hpp"
#include "core/base/path.hpp"
#include "core/base/progress.hpp"
#include "core/base/text.hpp"
#include "flush/fetch.hpp"
#include "flush/orphans.hpp"
#include "flush/parity.hpp"
#include "flush/save.hpp"
#include "tools/command.hpp"
#include "tools/index/extract.hpp"
#include "tools/index/find_expression.hpp"
#include "tools/index/index_changes.hpp"
#include "tools/index/index_output.hpp"
#include "tools/index/inspect.hpp"

namespace {

using nlohmann::ordered_json;
using scr::FileSystem;
using scr::ProgressBar;
using scr::Result;
using scr::Status;
using scr::text::escape;
using namespace scr::tools;

struct Options {
  std::string prefix = ".";
  std::string name;
  std::string files;
  std::vector<std::string> attributes;
  std::string find;
  std::string to;
  unsigned patience = 300;
  bool json = false;
  bool progress = false;
  bool no_cache = false;
  bool repair = false;
  bool list = false;
  bool build = false;
  bool check = false;
  bool verify_all = false;
  bool clean = false;
  bool dry_run = false;
  std::string add;
  std::string drop;
  std::string remove;
  std::string current;
  bool show_current = false;
  std::string clear_failed;
  std::string verify;
  std::string extract;
  std::vector<std::string> diff;

  InspectOptions inspect(ProgressBar& bar) const {
    return {std::chrono::seconds(patience), [&bar](std::uint64_t done) { bar.update(done); }, {}};
  }
};

std::string size_text(std::uint64_t bytes) {
  return scr::approximate_byte_size(static_cast<double>(bytes));
}

void print_warning(std::string_view text) { fmt::print(stderr, "scr_index: {}\n", text); }

Status damage_found(std::uint64_t files) {
  return scr::corrupt(fmt::format("{} damaged file(s) found", files));
}

Result<std::vector<DatasetRow>> datasets(FileSystem& fs, const Options& options) {
  CacheOptions cache;
  if (!options.no_cache) {
    auto found = cache_options_in_force(fs, options.prefix);
    if (!found.ok()) print_warning(found.status().with_context("the cache is left out").message());
    if (found.ok()) cache = *found;
  }
  std::vector<std::string> warnings;
  SCR_ASSIGN_OR_RETURN(auto rows, list_datasets(fs, options.prefix, cache, warnings));
  constexpr std::size_t kMostWarnings = 5;
  for (std::size_t i = 0; i < std::min(warnings.size(), kMostWarnings); ++i) {
    print_warning(warnings[i]);
  }
  if (warnings.size() > kMostWarnings) {
    print_warning(fmt::format("and {} more of this kind", warnings.size() - kMostWarnings));
  }
  return rows;
}

Status no_match(const Options& options) {
  return scr::not_found(fmt::format("no file matches '{}'", escape(options.files)));
}

// The files of one dataset; with a pattern there must be some.
Result<std::vector<DatasetFile>> wanted_files(FileSystem& fs, const Options& options,
                                              const DatasetRow& row) {
  SCR_ASSIGN_OR_RETURN(auto files, files_of(fs, options.prefix, row, options.files));
  if (files.empty() && !options.files.empty()) return no_match(options);
  return files;
}

Result<DatasetRow> dataset(FileSystem& fs, const Options& options, const std::string& name) {
  SCR_ASSIGN_OR_RETURN(const auto rows, datasets(fs, options));
  return find_dataset(rows, name);
}

// --- list -------------------------------------------------------------------------------------

// Columns: those of --attr, then those that --find needs.
std::vector<std::string> columns_of(const Options& options,
                                    const std::vector<Condition>& conditions) {
  std::vector<std::string> columns = options.attributes;
  for (const Condition& condition : conditions) {
    if (std::ranges::find(columns, condition.attribute) == columns.end()) {
      columns.push_back(condition.attribute);
    }
  }
  return columns;
}

bool all_hold(const std::vector<Condition>& conditions, const std::vector<std::string>& columns,
              const Values& values) {
  return std::ranges::all_of(conditions, [&](const Condition& condition) {
    const auto column = std::ranges::find(columns, condition.attribute) - columns.begin();
    return holds(condition, values[static_cast<std::size_t>(column)]);
  });
}

Status list(FileSystem& fs, const Options& options) {
  std::vector<Condition> conditions;
  if (!options.find.empty()) {
    SCR_ASSIGN_OR_RETURN(conditions, parse_conditions(options.find));
  }
  const std::vector<std::string> columns = columns_of(options, conditions);
  SCR_ASSIGN_OR_RETURN(const auto rows, datasets(fs, options));
  std::vector<ListedDataset> listed;
  if (columns.empty()) {
    for (const DatasetRow& row : rows) listed.push_back({&row, {}});
  } else {
    ProgressBar bar("datasets", rows.size(), options.progress);
    SCR_RETURN_IF_ERROR(find_values(
        fs, options.prefix, rows, columns, options.inspect(bar),
        [&](std::size_t row, const Values& values, const std::vector<std::string>& problems) {
          for (const std::string& problem : problems) {
            bar.hide();
            print_warning(fmt::format("{}: {}", escape(rows[row].dataset().name), problem));
          }
          if (all_hold(conditions, columns, values)) listed.push_back({&rows[row], values});
        }));
  }
  fmt::print("{}", options.json ? dump(list_json(listed, columns)) : table(listed, columns));
  return {};
}

// --- look into datasets -------------------------------------------------------------------------

Status show_tree(FileSystem& fs, const Options& options) {
  SCR_ASSIGN_OR_RETURN(const DatasetRow row, dataset(fs, options, options.name));
  SCR_ASSIGN_OR_RETURN(auto files, wanted_files(fs, options, row));
  ordered_json json = dataset_json(row);
  json["contents"] = ordered_json::array();
  if (!options.json) fmt::print("{}", title(row));
  TreePrinter printer(options.attributes);
  ProgressBar bar("files", files.size(), options.progress);
  std::uint64_t damaged = 0;
  const Status status = inspect_files(fs, options.prefix, {{row, std::move(files)}}, Depth::kTree,
                                      options.inspect(bar), [&](const FileReport& report) {
                                        if (!report.problems.empty()) ++damaged;
                                        if (options.json) {
                                          json["contents"].push_back(report_json(report, true));
                                          return;
                                        }
                                        bar.hide();
                                        fmt::print("{}", printer.print(report));
                                      });
  bar.hide();
  if (options.json) fmt::print("{}", dump(json));
  SCR_RETURN_IF_ERROR(status);
  return damaged == 0 ? Status() : damage_found(damaged);
}

// What a check found in one dataset.
struct Checked {
  ordered_json files = ordered_json::array();
  std::uint64_t hdf5 = 0;
  std::uint64_t damaged = 0;
  std::string failure;                   // to list its files
  std::vector<std::string> parity = {};  // what is wrong with parity containers
};

// Parity is of no file, but a dataset without it does not survive the next damage.
std::vector<std::string> parity_problems(FileSystem& fs, const Options& options,
                                         const DatasetRow& row) {
  if (!row.in_containers || !options.files.empty()) return {};
  const std::string directory = options.prefix + "/.scr/" + row.entry.directory;
  std::vector<std::string> problems;
  const auto summary = scr::flush::read_summary(fs, directory);
  const Status status =
      summary.ok() ? scr::flush::verify_parity_containers(fs, directory, *summary, problems)
                   : summary.status();
  if (!status.ok()) problems.emplace_back(status.message());
  return problems;
}

void add_report(const FileReport& report, const Options& options, const std::string& dataset,
                ProgressBar& bar, Checked& checked) {
  if (!report.problems.empty()) ++checked.damaged;
  if (report.hdf5) ++checked.hdf5;
  if (options.json) return checked.files.push_back(report_json(report, false));
  const std::string name = fmt::format("{}: {}", dataset, escape(report.file->name));
  if (!report.problems.empty() || !report.notes.empty()) bar.hide();
  for (const std::string& problem : report.problems) fmt::print("{}: {}\n", name, problem);
  for (const std::string& note : report.notes) fmt::print("{}: note: {}\n", name, note);
}

// Says how a dataset is; whether it is well.
bool conclude(const DatasetContents& dataset, const Checked& checked, bool hdf5_was_read,
              const Options& options) {
  const std::string name = escape(dataset.row.dataset().name);
  const bool complete = dataset.row.entry.complete;
  const bool well =
      checked.failure.empty() && checked.damaged == 0 && checked.parity.empty() && complete;
  if (options.json) return well;
  for (const std::string& problem : checked.parity) fmt::print("{}: parity: {}\n", name, problem);
  if (!checked.failure.empty()) {
    fmt::print("{}: {}\n", name, checked.failure);
  } else if (checked.damaged > 0) {
    fmt::print("{}: {} damaged file(s) of {}\n", name, checked.damaged, dataset.files.size());
  } else if (!complete) {
    fmt::print("{}: it is not complete\n", name);
  } else if (dataset.files.empty() && !options.files.empty()) {
    fmt::print("{}: {}\n", name, no_match(options).message());
  } else if (!checked.parity.empty()) {
    fmt::print("{}: {} file(s) are right, but not their parity containers\n", name,
               dataset.files.size());
  } else {
    fmt::print("{}: {} file(s), {}, {} of them HDF5: {} right\n", name, dataset.files.size(),
               size_text(dataset.row.dataset().size), checked.hdf5,
               hdf5_was_read ? "checksums and contents are" : "checksums are");
  }
  return well;
}

Status check(FileSystem& fs, const Options& options) {
  SCR_ASSIGN_OR_RETURN(auto rows, datasets(fs, options));
  if (!options.name.empty()) {
    SCR_ASSIGN_OR_RETURN(const DatasetRow row, find_dataset(rows, options.name));
    rows = {row};
  }
  std::vector<DatasetContents> contents;
  std::vector<Checked> results(rows.size());
  std::uint64_t files = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    auto found = files_of(fs, options.prefix, rows[i], options.files);
    if (!found.ok()) results[i].failure = found.status().message();
    contents.push_back({rows[i], found.ok() ? *std::move(found) : std::vector<DatasetFile>()});
    files += contents.back().files.size();
  }
  ProgressBar bar("files", files, options.progress);
  const Status status =
      inspect_files(fs, options.prefix, contents, Depth::kCheck, options.inspect(bar),
                    [&](const FileReport& report) {
                      add_report(report, options, escape(rows[report.dataset].dataset().name), bar,
                                 results[report.dataset]);
                    });
  bar.hide();
  ordered_json json = ordered_json::array();
  std::uint64_t bad = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    results[i].parity = parity_problems(fs, options, rows[i]);
    if (!conclude(contents[i], results[i], status.ok(), options)) ++bad;
    ordered_json& one = json.emplace_back(dataset_json(rows[i]));
    one["damaged"] = results[i].damaged;
    if (!results[i].parity.empty()) one["parity_problems"] = results[i].parity;
    if (!results[i].failure.empty()) one["failure"] = results[i].failure;
    one["checked"] = std::move(results[i].files);
  }
  if (options.json) fmt::print("{}", dump(json));
  SCR_RETURN_IF_ERROR(status);
  if (bad == 0 && files == 0 && !options.files.empty()) return no_match(options);
  return bad == 0 ? Status()
                  : scr::corrupt(fmt::format("{} of {} dataset(s) are damaged or not complete", bad,
                                             rows.size()));
}

Status diff(FileSystem& fs, const Options& options) {
  SCR_ASSIGN_OR_RETURN(const auto rows, datasets(fs, options));
  SCR_ASSIGN_OR_RETURN(const DatasetRow one, find_dataset(rows, options.diff[0]));
  SCR_ASSIGN_OR_RETURN(const DatasetRow other, find_dataset(rows, options.diff[1]));
  SCR_ASSIGN_OR_RETURN(const auto first, files_of(fs, options.prefix, one, options.files));
  SCR_ASSIGN_OR_RETURN(const auto second, files_of(fs, options.prefix, other, options.files));
  if (first.empty() && second.empty() && !options.files.empty()) return no_match(options);
  ProgressBar bar("files", std::max(first.size(), second.size()), options.progress);
  ordered_json json = {{"first", dataset_json(one)}, {"second", dataset_json(other)}};
  json["files"] = ordered_json::array();
  std::uint64_t files = 0;
  std::uint64_t different = 0;
  std::uint64_t failed = 0;
  const Status status = compare_files(fs, options.prefix, first, second, options.inspect(bar),
                                      [&](const PairReport& report) {
                                        ++files;
                                        if (report.count > 0) ++different;
                                        if (!report.problems.empty()) ++failed;
                                        if (options.json)
                                          return json["files"].push_back(pair_json(report));
                                        bar.hide();
                                        fmt::print("{}", pair_text(report));
                                      });
  bar.hide();
  json["different_files"] = different;
  if (options.json) fmt::print("{}", dump(json));
  SCR_RETURN_IF_ERROR(status);
  if (!options.json) fmt::print("{} of {} file(s) differ\n", different, files);
  if (failed > 0) {
    return scr::corrupt(fmt::format("{} file(s) could not be compared in full", failed));
  }
  return different == 0 ? Status() : scr::failed_precondition("the datasets differ");
}

Status extract(FileSystem& fs, const Options& options) {
  SCR_ASSIGN_OR_RETURN(const DatasetRow row, dataset(fs, options, options.extract));
  SCR_RETURN_IF_ERROR(check_all_ranks(row));
  SCR_ASSIGN_OR_RETURN(const auto files, wanted_files(fs, options, row));
  std::string target =
      options.to.empty() ? fmt::format("scr.dataset.{}.extracted", row.dataset().id) : options.to;
  SCR_ASSIGN_OR_RETURN(target, scr::normalize(target));
  ProgressBar bar("files", files.size(), options.progress);
  SCR_ASSIGN_OR_RETURN(const Extracted extracted,
                       extract_files(fs, options.prefix, files, target,
                                     [&bar](std::uint64_t done) { bar.update(done); }));
  bar.hide();
  if (options.json) {
    fmt::print("{}",
               dump({{"to", target}, {"files", extracted.files}, {"bytes", extracted.bytes}}));
  } else {
    fmt::print("{} file(s), {} extracted to {}\n", extracted.files, size_text(extracted.bytes),
               escape(target));
  }
  return {};
}

// --- checksums ----------------------------------------------------------------------------------

// What is wrong with a dataset, read from the first byte to the last.
std::vector<std::string> problems_of(FileSystem& fs, const Options& options,
                                     const scr::flush::IndexEntry& entry) {
  std::vector<std::string> problems;
  ProgressBar bar("bytes", entry.dataset.size, options.progress);
  const Status status = scr::flush::verify_dataset(
      fs, options.prefix, entry.directory, [&](std::uint64_t done) { bar.update(done); }, problems);
  bar.hide();
  if (!status.ok()) problems.emplace_back(status.message());
  return problems;
}

// Rebuilds what parity can give back; `problems` are then what is still wrong.
std::vector<std::string> repair(FileSystem& fs, const Options& options,
                                const scr::flush::IndexEntry& entry,
                                std::vector<std::string>& problems) {
  auto repaired = scr::flush::repair_containers(fs, options.prefix + "/.scr/" + entry.directory);
  // Containers of other groups may have been rebuilt before one failed.
  problems = problems_of(fs, options, entry);
  if (repaired.ok()) return *std::move(repaired);
  problems.emplace_back(repaired.status().with_context("it cannot be repaired").message());
  return {};
}

Status verify_one(FileSystem& fs, const Options& options, const DatasetRow& row) {
  const scr::flush::IndexEntry& entry = row.entry;
  const std::string name = escape(entry.dataset.name);
  std::vector<std::string> problems = problems_of(fs, options, entry);
  std::vector<std::string> repaired;
  if (!problems.empty() && options.repair) repaired = repair(fs, options, entry, problems);
  if (options.json) {
    ordered_json json = dataset_json(row);
    json["problems"] = problems;
    if (options.repair) json["repaired"] = repaired;
    fmt::print("{}", dump(json));
  } else {
    if (!repaired.empty())
      fmt::print("{}: {} container(s) rebuilt from parity\n", name, repaired.size());
    for (const std::string& problem : problems) fmt::print("{}: {}\n", name, problem);
  }
  if (!problems.empty()) return scr::corrupt(fmt::format("dataset '{}' is damaged", name));
  if (!options.json) {
    fmt::print("{}: {} in {} file(s), every byte is right\n", name, size_text(entry.dataset.size),
               entry.dataset.files);
  }
  return {};
}

Status verify(FileSystem& fs, const Options& options) {
  std::vector<std::string> warnings;
  SCR_ASSIGN_OR_RETURN(const auto rows, list_datasets(fs, options.prefix, {}, warnings));
  if (!options.verify_all) {
    SCR_ASSIGN_OR_RETURN(const DatasetRow row, find_dataset(rows, options.verify));
    return verify_one(fs, options, row);
  }
  // One document, of which each dataset is told as soon as it is known.
  if (options.json) fmt::print("[\n");
  Status first;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (options.json && i > 0) fmt::print(",\n");
    const Status status = verify_one(fs, options, rows[i]);
    if (first.ok()) first = status;
  }
  if (options.json) fmt::print("]\n");
  return first;
}

// --- change -------------------------------------------------------------------------------------

Status build(FileSystem& fs, const Options& options) {
  SCR_ASSIGN_OR_RETURN(const BuiltIndex built, build_index(fs, options.prefix));
  if (!built.set_aside.empty())
    print_warning("the index was damaged; it is set aside as " + built.set_aside);
  for (const std::string& line : built.left_out) print_warning("left out: " + line);
  fmt::print("{} dataset(s) added\n", built.added);
  return {};
}

Status add(FileSystem& fs, const Options& options) {
  SCR_ASSIGN_OR_RETURN(const std::string name, add_dataset(fs, options.prefix, options.add));
  fmt::print("added '{}' ({})\n", escape(name), options.add);
  return {};
}

Status current(FileSystem& fs, const Options& options) {
  if (!options.current.empty()) return set_current(fs, options.prefix, options.current);
  SCR_ASSIGN_OR_RETURN(const auto entry, current_dataset(fs, options.prefix));
  if (options.json) {
    fmt::print(
        "{}",
        dump({{"id", entry.id()}, {"name", entry.dataset.name}, {"directory", entry.directory}}));
  } else {
    fmt::print("{}\n", escape(entry.dataset.name));
  }
  return {};
}

Status clear(FileSystem& fs, const Options& options) {
  SCR_ASSIGN_OR_RETURN(const auto after, clear_failed(fs, options.prefix, options.clear_failed));
  fmt::print("'{}' may be fetched again; a restart from the prefix directory takes {}\n",
             escape(after.cleared),
             after.restart.empty() ? "nothing" : "'" + escape(after.restart) + "'");
  if (after.passes_over) {
    fmt::print("to restart from '{0}', which is newer: scr_index --current '{0}'\n",
               escape(after.cleared));
  }
  return {};
}

// Temporary files that nobody lists any more, and flushes that were cut: whoever takes one of these
// up later begins it anew.
Status clean(FileSystem& fs, const Options& options) {
  SCR_ASSIGN_OR_RETURN(const auto lock, scr::flush::lock_prefix(fs, options.prefix, {}));
  SCR_ASSIGN_OR_RETURN(const auto cut,
                       scr::flush::find_cut(fs, options.prefix, [](const auto&) { return true; }));
  SCR_ASSIGN_OR_RETURN(const auto strays, scr::flush::find_strays(fs, options.prefix, cut));
  std::vector<scr::flush::StrayFile> gone;
  Status status =
      options.dry_run ? Status() : scr::flush::remove_strays(fs, options.prefix, strays, gone);
  if (status.ok() && !options.dry_run) status = scr::flush::remove_cut(fs, options.prefix, cut);
  if (options.dry_run) gone = strays;
  ordered_json json = {{"dry_run", options.dry_run}, {"files", ordered_json::array()}};
  std::uint64_t bytes = 0;
  for (const auto& stray : gone) {
    bytes += stray.size;
    json["files"].push_back({{"file", stray.file}, {"bytes", stray.size}});
    if (!options.json)
      fmt::print("{}: {}\n", options.dry_run ? "would remove" : "removed", escape(stray.file));
  }
  if (options.json) {
    fmt::print("{}", dump(json));
  } else {
    fmt::print("{} file(s), {}\n", gone.size(), size_text(bytes));
  }
  return status;
}

Status run(FileSystem& fs, const Options& options) {
  if (options.clean) return clean(fs, options);
  if (options.build) return build(fs, options);
  if (!options.add.empty()) return add(fs, options);
  if (options.show_current) return current(fs, options);
  if (!options.clear_failed.empty()) return clear(fs, options);
  if (!options.drop.empty()) return drop_dataset(fs, options.prefix, options.drop);
  if (!options.remove.empty()) return delete_dataset_and_files(fs, options.prefix, options.remove);
  if (options.verify_all || !options.verify.empty()) return verify(fs, options);
  if (!options.extract.empty()) return extract(fs, options);
  if (!options.diff.empty()) return diff(fs, options);
  if (options.check) return check(fs, options);
  if (!options.name.empty()) return show_tree(fs, options);
  return list(fs, options);
}

constexpr const char* kFooter =
    "Without an action it lists the datasets of the prefix directory and of this node's cache; "
    "'*'\n"
    "marks the current one. With NAME it shows what is in that dataset's files.\n"
    "NAME is a dataset's name, the name of its directory below .scr, or its number.\n"
    "\n"
    "ATTRIBUTE is the name of an HDF5 attribute: looked for on the root group, as a dataset with\n"
    "one element, then on the objects in the root group; or '/path@name'; or the '/path' of a\n"
    "dataset with one element. It is that of the first file of a dataset that has it.\n"
    "EXPRESSION is 'ATTRIBUTE OP VALUE', OP one of < <= > >= == !=; several joined by '&&'.\n"
    "\n"
    "Exit codes: 0 done; 1 failed, damage found, or (--diff) the datasets differ; 2 wrong "
    "arguments.";

void define_actions(CLI::App& app, Options& options) {
  auto* actions = app.add_option_group("actions", "At most one");
  actions->add_flag("-l,--list", options.list, "List the datasets (default)");
  actions->add_flag(
      "--check", options.check,
      "Compare every checksum, also of parity, and read all of every HDF5 file, of NAME "
      "or of all datasets");
  actions->add_option("--extract", options.extract, "Copy the files of NAME, see --to")
      ->type_name("NAME");
  actions->add_option("--diff", options.diff, "Compare the files of two datasets")
      ->type_name("NAME")
      ->expected(2);
  actions
      ->add_option("-a,--add", options.add,
                   "Add the dataset directory DIR (below .scr), also that of a scavenge that "
                   "was cut after it had copied what is needed")
      ->type_name("DIR");
  actions->add_flag(
      "-b,--build", options.build,
      "Add every dataset directory that has a summary; an index that is damaged is set "
      "aside and made anew");
  actions
      ->add_option("-c,--current", options.current,
                   "Make NAME the checkpoint to restart from; without NAME: print which it is")
      ->type_name("NAME")
      ->expected(0, 1);
  actions->add_option("-d,--drop", options.drop, "Take NAME out of the index; its files stay")
      ->type_name("NAME");
  actions->add_option("--delete", options.remove, "Delete NAME and its files")->type_name("NAME");
  actions
      ->add_option("--clear-failed", options.clear_failed,
                   "Let NAME be fetched again, and say what a restart takes")
      ->type_name("NAME");
  actions->add_option("-v,--verify", options.verify, "Read NAME and compare every checksum")
      ->type_name("NAME");
  actions->add_flag("--clean", options.clean,
                    "Remove temporary files of datasets that were cut and that nobody will end, "
                    "wherever they are; the program must have ended");
  actions->add_flag("--verify-all", options.verify_all, "The same for all datasets");
  actions->require_option(0, 1);
}

void define(CLI::App& app, Options& options) {
  app.footer(kFooter);
  app.add_option("NAME", options.name, "Dataset to look into")->type_name("");
  app.add_option("-p,--prefix", options.prefix, "Prefix directory (default: the working directory)")
      ->type_name("DIR");
  app.add_flag("-j,--json", options.json, "Print JSON");
  app.add_option("--attr", options.attributes,
                 "Show this attribute: a column of the list, or the only ones of the tree; may be "
                 "given several times")
      ->type_name("ATTRIBUTE")
      ->allow_extra_args(false);
  app.add_option("--find", options.find, "List only datasets for which this holds")
      ->type_name("EXPRESSION");
  app.add_option("--file", options.files,
                 "With NAME, --check, --extract, --diff: only files whose names match")
      ->type_name("PATTERN");
  app.add_option("--to", options.to,
                 "With --extract: directory to make (default: scr.dataset.<id>.extracted)")
      ->type_name("DIR");
  app.add_flag(
      "--repair", options.repair,
      "With --verify: rebuild damaged and lost containers from parity, then read all again");
  app.add_flag("-n,--dry-run", options.dry_run, "With --clean: only say what would be removed");
  app.add_flag("--no-cache", options.no_cache, "Leave the cache of this node out");
  app.add_flag("--progress", options.progress,
               "Show progress also if standard error is no terminal");
  app.add_option("--patience", options.patience,
                 "Seconds after which a file that HDF5 does not come to an end with is given up "
                 "(default: 300)")
      ->type_name("SECONDS")
      ->check(CLI::Range(1U, 86400U));
  define_actions(app, options);
}

// --- wrong use ----------------------------------------------------------------------------------

// The action that was given, e.g. "--verify"; empty if none.
std::string action_of(const CLI::App& app) {
  for (const CLI::Option* option : app.get_option_group("actions")->get_options()) {
    if (option->count() > 0) return "--" + option->get_lnames().front();
  }
  return {};
}

// An argument that has no effect is a slip, and what it was meant for would not be done.
Status check_use(const CLI::App& app, const Options& options) {
  struct Use {
    const char* option;
    std::vector<std::string> actions;  // "": no action
  };
  const std::vector<Use> uses = {{"--repair", {"--verify", "--verify-all"}},
                                 {"--to", {"--extract"}},
                                 {"--dry-run", {"--clean"}},
                                 {"--find", {"", "--list"}},
                                 {"--file", {"", "--check", "--extract", "--diff"}}};
  const std::string action = action_of(app);
  for (const Use& use : uses) {
    if (app.count(use.option) == 0 || std::ranges::find(use.actions, action) != use.actions.end())
      continue;
    return scr::invalid_argument(action.empty()
                                     ? fmt::format("{} needs {}", use.option, use.actions.front())
                                     : fmt::format("{} is not for {}", use.option, action));
  }
  if (!options.name.empty() && !action.empty() && action != "--check") {
    return scr::invalid_argument(
        fmt::format("'{}' is one name too many for {}", escape(options.name), action));
  }
  if (options.name.empty() && action.empty() && !options.files.empty())
    return scr::invalid_argument("--file needs the NAME of a dataset");
  if (!options.name.empty() && !options.find.empty())
    return scr::invalid_argument("--find chooses from the list: it takes no NAME");
  return {};
}

// An empty name, as of a variable that is not set, must not be taken for none.
bool has_empty_word(int argc, char** argv) {
  return std::any_of(argv + 1, argv + argc, [](const char* word) { return *word == '\0'; });
}

int fail_as(const Status& status) { return fail("scr_index", status, exit_code(status)); }

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Shows and changes the index of the datasets in a prefix directory, and looks into "
      "their HDF5 files."};
  Options options;
  define(app, options);
  if (has_empty_word(argc, argv)) return fail_as(scr::invalid_argument("an argument is empty"));
  if (const auto code = scr::tools::parse(app, argc, argv)) return *code;
  if (const Status used = check_use(app, options); !used.ok()) return fail_as(used);
  options.show_current = app.get_option_group("actions")->count("--current") > 0;
  const auto prefix = scr::normalize(options.prefix);
  if (!prefix.ok()) return fail_as(prefix.status());
  options.prefix = *prefix;
  FileSystem& fs = scr::file_system();
  Status status = scr::tools::check_directory(fs, options.prefix);
  if (status.ok()) status = run(fs, options);
  return status.ok() ? scr::tools::kSuccess : fail_as(status);
}
