// scr_flush_file: what the flush file of this node says.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "core/base/filemap.hpp"
#include "core/base/flush_file.hpp"
#include "core/base/text.hpp"
#include "core/job/alone_jobs.hpp"
#include "core/job/job_settings.hpp"
#include "tools/command.hpp"

namespace {

using scr::FlushFile;
using scr::FlushState;

constexpr const char* kName = "scr_flush_file";
constexpr int kCannotTell = 3;
constexpr const char* kFooter =
    "Exit codes:\n"
    "  --latest        0 there is one, and its id is printed; 1 there is none\n"
    "  --needflush ID  0 it needs a flush: it is in the cache and not in the prefix directory; 1 "
    "it does not\n"
    "  --id ID         0 it is in the prefix directory; 1 it is not\n"
    "  --name ID       0 its name is printed; 1 there is no such dataset\n"
    "  lists           0\n"
    "  always          2 wrong use; 3 the flush file cannot be read (a missing one has no "
    "datasets)";

struct Arguments {
  std::string directory;
  std::optional<int> need_flush, id, name;
  bool latest = false, list_checkpoints = false, list_output = false, list_alone = false;
  bool json = false;
};

// When the datasets were written, which filemaps tell; what cannot be read tells nothing.
std::map<int, std::int64_t> times_of_datasets(const std::string& directory) {
  std::map<int, std::int64_t> times;
  scr::FileSystem& fs = scr::file_system();
  const auto names =
      scr::read_master_filemap(fs, directory + "/" + std::string(scr::kMasterFilemapName));
  if (!names.ok()) return times;
  for (const std::string& name : *names) {
    const auto filemap = scr::read_filemap(fs, directory + "/" + name);
    if (!filemap.ok()) continue;
    for (const int id : filemap->datasets()) {
      const int rank = filemap->ranks(id).front();
      times[id] = std::max(times[id], filemap->get(rank, id)->dataset.created);
    }
  }
  return times;
}

int print_datasets(const FlushFile& flush, const std::vector<int>& ids,
                   const Arguments& arguments) {
  const bool json = arguments.json;
  std::map<int, std::int64_t> times;
  if (json) times = times_of_datasets(arguments.directory);
  auto told = nlohmann::ordered_json::array();
  for (int id : ids) {
    const FlushState& state = *flush.get(id);
    if (!json) fmt::print("{}\n", id);
    told.push_back({{"id", id},
                    {"name", state.name},
                    {"in_cache", state.in_cache},
                    {"in_prefix", state.in_prefix},
                    {"flushing", state.flushing},
                    {"checkpoint", state.is_checkpoint},
                    {"output", state.is_output},
                    {"needflush", flush.need_flush(id)}});
    if (times.contains(id)) told.back()["created"] = times.at(id);
  }
  const auto replace = nlohmann::json::error_handler_t::replace;
  if (json) fmt::print("{}\n", told.dump(2, ' ', false, replace));
  return scr::tools::kSuccess;
}

// Processes that work alone have control directories beside that of their job.
int print_alone(const Arguments& arguments) {
  auto told = nlohmann::ordered_json::array();
  for (const scr::job::AloneDataset& one :
       scr::job::find_alone_datasets(scr::file_system(), arguments.directory)) {
    if (!arguments.json) fmt::print("{} {}\n", scr::text::escape(one.job_id), one.id);
    told.push_back({{"job", one.job_id}, {"id", one.id}, {"name", one.name}});
  }
  const auto replace = nlohmann::json::error_handler_t::replace;
  if (arguments.json) fmt::print("{}\n", told.dump(2, ' ', false, replace));
  return scr::tools::kSuccess;
}

int answer(bool yes) { return yes ? 0 : 1; }

int run(const FlushFile& flush, const Arguments& arguments) {
  if (arguments.list_alone) return print_alone(arguments);
  if (arguments.need_flush) return answer(flush.need_flush(*arguments.need_flush));
  if (arguments.id) {
    const FlushState* state = flush.get(*arguments.id);
    return answer(state != nullptr && state->in_prefix);
  }
  if (arguments.name) {
    const FlushState* state = flush.get(*arguments.name);
    if (state != nullptr) fmt::print("{}\n", scr::text::escape(state->name));
    return answer(state != nullptr);
  }
  if (arguments.latest) {
    const auto latest = flush.latest_checkpoint();
    if (latest) fmt::print("{}\n", *latest);
    return answer(latest.has_value());
  }
  std::vector<int> ids = flush.datasets();
  ids.erase(std::remove_if(ids.begin(), ids.end(),
                           [&](int id) {
                             const FlushState& state = *flush.get(id);
                             return (arguments.list_checkpoints && !state.is_checkpoint) ||
                                    (arguments.list_output && !state.is_output);
                           }),
            ids.end());
  return print_datasets(flush, ids, arguments);
}

scr::Result<FlushFile> read(Arguments& arguments) {
  std::string& directory = arguments.directory;
  if (directory.empty()) {
    SCR_ASSIGN_OR_RETURN(const auto job, scr::job::JobSettings::load(scr::file_system()));
    directory = job.control_directory();
  }
  // One that is not there has no datasets; what is no directory has been named by mistake.
  const scr::Status found = scr::tools::check_directory(scr::file_system(), directory);
  if (!found.ok() && found.errno_value() != ENOENT) return found;
  auto flush =
      scr::read_flush_file(scr::file_system(), directory + "/" + std::string(scr::kFlushFileName));
  if (flush.status().code() == scr::StatusCode::kNotFound) return FlushFile();
  return flush;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Tells which datasets are in the cache of this node, and which need a flush.",
               kName};
  app.footer(kFooter);
  Arguments arguments;
  app.add_option("-d,--dir", arguments.directory, "Control directory (default: scr_cntl_dir cntl)");
  auto* what = app.add_option_group("what", "One of these; without: the ids of all datasets");
  what->add_flag("-l,--latest", arguments.latest, "Print the id of the newest checkpoint");
  what->add_option("-n,--needflush,--need-flush", arguments.need_flush,
                   "Ask whether this dataset needs a flush")
      ->type_name("ID");
  what->add_option("-i,--id", arguments.id, "Ask whether this dataset is in the prefix directory")
      ->type_name("ID");
  what->add_option("--name", arguments.name, "Print the name of this dataset")->type_name("ID");
  what->add_flag("--list-ckpt", arguments.list_checkpoints, "Print the ids of checkpoints");
  what->add_flag("--list-output", arguments.list_output, "Print the ids of output datasets");
  what->add_flag("--list-alone", arguments.list_alone,
                 "Print job id and dataset of processes outside of MPI (ID.sN, ID.pN) of the job, "
                 "whose newest checkpoint or output is only in the cache");
  what->require_option(0, 1);
  app.add_flag("-j,--json", arguments.json, "Print lists as JSON, with all that is known");
  if (const auto code = scr::tools::parse(app, argc, argv)) return *code;
  const auto flush = read(arguments);
  if (!flush.ok()) return scr::tools::fail(kName, flush.status(), kCannotTell);
  return run(*flush, arguments);
}
