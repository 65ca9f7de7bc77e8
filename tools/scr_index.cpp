// scr_index: shows and changes the index of a prefix directory.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/base/byte_size.hpp"
#include "core/base/path.hpp"
#include "core/base/text.hpp"
#include "flush/fetch.hpp"
#include "flush/flush.hpp"
#include "flush/index.hpp"
#include "flush/intent.hpp"
#include "flush/parity.hpp"

namespace {

using scr::FileSystem;
using scr::Status;
using scr::flush::Index;
using scr::flush::IndexEntry;

struct Options {
  std::string prefix = ".";
  bool list = false;
  bool json = false;
  bool build = false;
  std::string add;
  std::string drop;
  std::string remove;
  std::string current;
  std::string clear_failed;
  std::string verify;
  bool verify_all = false;
  bool repair = false;
};

// A dataset by its name or by the name of its directory below .scr.
const IndexEntry* find(const Index& index, const std::string& name) {
  const IndexEntry* entry = index.find_name(name);
  return entry ? entry : index.find_directory(name);
}

Status unknown(const std::string& name) {
  return scr::not_found("there is no dataset '" + name + "' in the index; 'scr_index' lists them");
}

// --- list
// ---------------------------------------------------------------------------------------------

nlohmann::ordered_json to_json(const Index& index, const IndexEntry& entry) {
  return {{"id", entry.id()},
          {"name", entry.dataset.name},
          {"directory", entry.directory},
          {"checkpoint", entry.dataset.checkpoint},
          {"output", entry.dataset.output},
          {"created_us", entry.dataset.created},
          {"ranks", entry.dataset.ranks},
          {"files", entry.dataset.files},
          {"bytes", entry.dataset.size},
          {"complete", entry.complete},
          {"current", entry.directory == index.current()},
          {"flushed", entry.flushed},
          {"fetched", entry.fetched},
          {"failed", entry.failed}};
}

void print_json(const Index& index) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const IndexEntry& entry : index.entries()) list.push_back(to_json(index, entry));
  fmt::print("{}\n", list.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

void print_table(const Index& index) {
  fmt::print("{:>6} {:1} {:5} {:8} {:>7} {:>9} {:>10}  {:20} {}\n", "ID", "", "TYPE", "STATE",
             "RANKS", "FILES", "SIZE", "FLUSHED", "NAME");
  for (const IndexEntry& entry : index.entries()) {
    const char* state = !entry.failed.empty() ? "failed" : entry.complete ? "complete" : "partial";
    const char* type =
        entry.dataset.is_checkpoint() ? (entry.dataset.output ? "both" : "ckpt") : "out";
    fmt::print("{:>6} {:1} {:5} {:8} {:>7} {:>9} {:>10}  {:20} {}\n", entry.id(),
               entry.directory == index.current() ? "*" : "", type, state, entry.dataset.ranks,
               entry.dataset.files, scr::format_byte_size(entry.dataset.size), entry.flushed,
               scr::text::escape(entry.dataset.name));
  }
}

Status list(FileSystem& fs, const Options& options) {
  SCR_ASSIGN_OR_RETURN(Index index, scr::flush::read_index(fs, options.prefix));
  if (options.json) {
    print_json(index);
  } else {
    print_table(index);
  }
  return {};
}

// --- change
// -------------------------------------------------------------------------------------------

// Takes a dataset directory with a summary into the index.
Status add(FileSystem& fs, const Options& options, const std::string& name) {
  const std::string directory = options.prefix + "/.scr/" + name;
  SCR_ASSIGN_OR_RETURN(auto summary, scr::flush::read_summary(fs, directory));
  SCR_RETURN_IF_ERROR(scr::flush::add_to_index(fs, options.prefix, name, summary));
  fmt::print("added '{}' ({})\n", summary.dataset.name, name);
  return {};
}

// Makes the index anew from the summaries that are there.
Status build(FileSystem& fs, const Options& options) {
  SCR_RETURN_IF_ERROR(scr::flush::roll_forward(fs, options.prefix, nullptr));
  SCR_ASSIGN_OR_RETURN(auto entries, fs.list(options.prefix + "/.scr"));
  int added = 0;
  for (const auto& entry : entries) {
    if (entry.type != scr::FileInfo::Type::kDirectory || !entry.name.starts_with("scr.dataset."))
      continue;
    auto summary = scr::flush::read_summary(fs, options.prefix + "/.scr/" + entry.name);
    if (!summary.ok()) {
      fmt::print(stderr, "scr_index: left out: {}\n", summary.status().message());
      continue;
    }
    SCR_RETURN_IF_ERROR(scr::flush::update_index(fs, options.prefix, [&](Index& index) -> Status {
      if (index.find_directory(entry.name) != nullptr) return {};
      IndexEntry fresh;
      fresh.directory = entry.name;
      fresh.dataset = summary->dataset;
      fresh.complete = summary->complete;
      fresh.flushed = scr::flush::timestamp_now();
      index.put(std::move(fresh));
      ++added;
      return {};
    }));
  }
  fmt::print("{} dataset(s) added\n", added);
  return {};
}

Status change(FileSystem& fs, const Options& options, const std::string& name,
              const std::function<void(Index&, IndexEntry&)>& action) {
  return scr::flush::update_index(fs, options.prefix, [&](Index& index) -> Status {
    const IndexEntry* entry = find(index, name);
    if (entry == nullptr) return unknown(name);
    action(index, *index.find_directory(entry->directory));
    return {};
  });
}

// --- verify
// -------------------------------------------------------------------------------------------

void show_progress(std::uint64_t done, std::uint64_t total) {
  static int last = -1;
  const int percent = total == 0 ? 100 : static_cast<int>(done * 100 / total);
  if (isatty(STDERR_FILENO) == 0 || percent == last) return;
  last = percent;
  fmt::print(stderr, "\r{:3}% of {}", percent, scr::format_byte_size(total));
  if (percent >= 100) fmt::print(stderr, "\n");
}

Status verify_one(FileSystem& fs, const Options& options, const IndexEntry& entry) {
  std::vector<std::string> problems;
  Status status = scr::flush::verify_dataset(
      fs, options.prefix, entry.directory,
      [&](std::uint64_t done) { show_progress(done, entry.dataset.size); }, problems);
  if (!status.ok()) problems.emplace_back(status.message());
  if (!problems.empty() && options.repair) {
    SCR_ASSIGN_OR_RETURN(auto repaired, scr::flush::repair_containers(
                                            fs, options.prefix + "/.scr/" + entry.directory));
    fmt::print("{}: {} container(s) rebuilt from parity\n", scr::text::escape(entry.dataset.name),
               repaired.size());
    return {};
  }
  for (const std::string& problem : problems)
    fmt::print("{}: {}\n", scr::text::escape(entry.dataset.name), problem);
  if (!problems.empty())
    return scr::corrupt(fmt::format("dataset '{}' is damaged", entry.dataset.name));
  fmt::print("{}: {} in {} file(s), every byte is right\n", scr::text::escape(entry.dataset.name),
             scr::format_byte_size(entry.dataset.size), entry.dataset.files);
  return {};
}

Status verify(FileSystem& fs, const Options& options) {
  SCR_ASSIGN_OR_RETURN(Index index, scr::flush::read_index(fs, options.prefix));
  if (!options.verify_all) {
    const IndexEntry* entry = find(index, options.verify);
    return entry ? verify_one(fs, options, *entry) : unknown(options.verify);
  }
  Status first;
  for (const IndexEntry& entry : index.entries()) {
    Status status = verify_one(fs, options, entry);
    if (first.ok()) first = status;
  }
  return first;
}

Status run(FileSystem& fs, const Options& options) {
  if (options.build) return build(fs, options);
  if (!options.add.empty()) return add(fs, options, options.add);
  if (!options.current.empty()) {
    return change(fs, options, options.current,
                  [](Index& index, IndexEntry& entry) { index.set_current(entry.directory); });
  }
  if (!options.clear_failed.empty()) {
    return change(fs, options, options.clear_failed,
                  [](Index&, IndexEntry& entry) { entry.failed.clear(); });
  }
  if (!options.drop.empty()) {
    return change(fs, options, options.drop, [](Index& index, IndexEntry& entry) {
      const std::string directory = entry.directory;
      if (index.current() == directory) index.set_current("");
      index.remove(directory);
    });
  }
  if (!options.remove.empty()) {
    SCR_ASSIGN_OR_RETURN(Index index, scr::flush::read_index(fs, options.prefix));
    const IndexEntry* entry = find(index, options.remove);
    return entry ? scr::flush::delete_dataset(fs, options.prefix, entry->directory)
                 : unknown(options.remove);
  }
  if (options.verify_all || !options.verify.empty()) return verify(fs, options);
  return list(fs, options);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Shows and changes the index of the datasets in a prefix directory."};
  app.footer(
      "Without an action it lists the datasets; '*' marks the current one.\n"
      "NAME is a dataset's name or the name of its directory below .scr.\n"
      "Exit codes: 0 done, 1 failed or damage found, 2 wrong arguments.");
  Options options;
  app.add_option("-p,--prefix", options.prefix,
                 "Prefix directory (default: the working directory)");
  app.add_flag("-j,--json", options.json, "List as JSON");
  auto* actions = app.add_option_group("actions", "At most one");
  actions->add_flag("-l,--list", options.list, "List the datasets (default)");
  actions->add_option("-a,--add", options.add, "Add the dataset directory NAME (below .scr)");
  actions->add_flag("-b,--build", options.build, "Add every dataset directory that has a summary");
  actions->add_option("-c,--current", options.current, "Make NAME the checkpoint to restart from");
  actions->add_option("-d,--drop", options.drop, "Take NAME out of the index; its files stay");
  actions->add_option("--delete", options.remove, "Delete NAME and its files");
  actions->add_option("--clear-failed", options.clear_failed, "Let NAME be fetched again");
  actions->add_option("-v,--verify", options.verify, "Read NAME and compare every checksum");
  actions->add_flag("--verify-all", options.verify_all, "The same for all datasets");
  actions->require_option(0, 1);
  app.add_flag("--repair", options.repair, "With --verify: rebuild damaged containers from parity");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  auto prefix = scr::normalize(options.prefix);
  if (prefix.ok()) options.prefix = *prefix;
  Status status = prefix.ok() ? run(scr::file_system(), options) : prefix.status();
  if (status.ok()) return 0;
  fmt::print(stderr, "scr_index: {}\n", status.message());
  return 1;
}
