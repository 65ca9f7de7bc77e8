// Fuzzes files and answers that name other files: the list of made directories, the master filemap
// and the exports of the range service, behind the checksum of a hash file, and the lists in JSON
// that commands get from nodes. What is accepted stays below its directory and comes back from its
// own form.
#include <cstdlib>
#include <string>

#include "core/base/filemap.hpp"
#include "core/base/job_directories.hpp"
#include "core/base/path.hpp"
#include "core/job/alone_jobs.hpp"
#include "core/job/drill_story.hpp"
#include "core/job/restart_choice.hpp"
#include "core/service/exports.hpp"
#include "flush/made_directories.hpp"

namespace {

void check_safe(const std::string& name) {
  const auto safe = scr::safe_relative_path(name);
  if (!safe.ok() || *safe != name) std::abort();
}

void check_made(const scr::Hash& hash) {
  const auto made = scr::flush::MadeDirectories::from_hash(hash);
  for (const auto& [name, inode] : made.inodes) check_safe(name);
  if (scr::flush::MadeDirectories::from_hash(made.to_hash()) != made) std::abort();
}

void check_export(const scr::Hash& hash) {
  const auto found = scr::service::Export::from_hash(hash);
  if (!found.ok()) return;
  check_safe(found->file);
  const auto again = scr::service::Export::from_hash(found->to_hash());
  if (!again.ok() || *again != *found) std::abort();
}

void check_endpoint(const std::string& text) {
  const auto endpoint = scr::service::Endpoint::from_text(text);
  if (!endpoint.ok()) return;
  const auto again = scr::service::Endpoint::from_text(endpoint->to_text());
  if (!again.ok() || *again != *endpoint) std::abort();
}

void check_answers(const std::string& text) {
  for (const auto& one : scr::job::parse_alone_datasets(text, "7")) {
    if (one.id < 1 || one.job_id == "7" || !scr::is_of_job(one.job_id, "7")) std::abort();
  }
  const auto newest = scr::job::newest_checkpoint_of_list(text);
  if (newest.id < 0 || (newest.id == 0 && !newest.name.empty())) std::abort();
  (void)scr::job::drill_story(text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  check_endpoint(text);
  check_answers(text);
  const auto hash = scr::Hash::unpack(std::as_bytes(std::span(data, size)));
  if (!hash.ok()) return 0;
  check_made(*hash);
  check_export(*hash);
  if (const auto names = scr::master_filemap_from_hash(*hash); names.ok()) {
    for (const std::string& name : *names) check_safe(name);
  }
  return 0;
}
