#include "flush/intent.hpp"

#include "core/base/path.hpp"
#include "flush/dataset_directory.hpp"

namespace scr::flush {

namespace {

std::string intent_path(const std::string& directory) {
  return directory + "/" + std::string(kIntentName);
}

}  // namespace

Hash Intent::to_hash() const {
  Hash hash;
  hash.set("DSET", dataset.to_hash());
  hash.set_value("LAYOUT", layout);
  hash.set_value("ATTEMPT", attempt);
  if (keep_newer) hash.at("KEEP_NEWER");
  for (const Superseded& old : superseded)
    hash.at("SUPERSEDES").at(old.directory).set_value("CREATED", old.created);
  return hash;
}

Result<Intent> Intent::from_hash(const Hash& hash) {
  Intent intent;
  const Hash* dataset = hash.get("DSET");
  if (dataset == nullptr) return corrupt("it names no dataset");
  SCR_ASSIGN_OR_RETURN(intent.dataset, DatasetDescriptor::from_hash(*dataset));
  intent.layout = std::string(hash.value("LAYOUT").value_or(""));
  if (hash.contains("ATTEMPT")) {
    SCR_ASSIGN_OR_RETURN(intent.attempt, hash.require_int("ATTEMPT"));
  }
  intent.keep_newer = hash.contains("KEEP_NEWER");
  const Hash* superseded = hash.get("SUPERSEDES");
  if (superseded == nullptr) return intent;
  for (const auto& element : superseded->elements()) {
    Superseded old;
    SCR_ASSIGN_OR_RETURN(old.directory, safe_relative_path(element.key));
    SCR_ASSIGN_OR_RETURN(old.created, element.hash.require_int("CREATED"));
    if (!old.directory.starts_with("scr.dataset.") || old.directory.find('/') != std::string::npos)
      return corrupt("it names what is no dataset directory");
    intent.superseded.push_back(std::move(old));
  }
  return intent;
}

Status write_intent(FileSystem& fs, const std::string& directory, const Intent& intent,
                    Durability durability) {
  return write_hash_file(fs, intent_path(directory), intent.to_hash(), durability);
}

Result<Intent> read_intent(FileSystem& fs, const std::string& directory) {
  SCR_ASSIGN_OR_RETURN(const Hash hash, read_hash_file(fs, intent_path(directory)));
  auto intent = Intent::from_hash(hash);
  if (!intent.ok()) return intent.status().with_context("'" + intent_path(directory) + "'");
  return intent;
}

Result<bool> has_intent(FileSystem& fs, const std::string& directory) {
  return fs.exists(intent_path(directory));
}

Status sync_intent(FileSystem& fs, const std::string& directory) {
  return fs.sync_file(intent_path(directory));
}

Status remove_intent(FileSystem& fs, const std::string& directory) {
  return fs.remove_if_exists(intent_path(directory));
}

Result<std::vector<std::string>> directories_of(FileSystem& fs, const std::string& prefix,
                                                const DatasetDescriptor& dataset) {
  SCR_ASSIGN_OR_RETURN(auto names, dataset_directories(fs, prefix));
  std::vector<std::string> found;
  for (const std::string& name : names) {
    if (!is_directory_of(name, dataset.id)) continue;
    auto owner = read_intent(fs, prefix + "/.scr/" + name);
    if (owner.status().is_transient()) return owner.status();
    if (owner.ok() && owner->dataset.id == dataset.id && owner->dataset.created == dataset.created)
      found.push_back(name);
  }
  return found;
}

Result<std::string> find_intent(FileSystem& fs, const std::string& prefix,
                                const DatasetDescriptor& dataset) {
  SCR_ASSIGN_OR_RETURN(auto names, directories_of(fs, prefix, dataset));
  for (const std::string& name : names) {
    SCR_ASSIGN_OR_RETURN(bool committed, is_committed(fs, prefix + "/.scr/" + name));
    if (!committed) return name;
  }
  return std::string();
}

}  // namespace scr::flush
