#include "core/base/job_directories.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <string_view>

#include "core/base/path.hpp"

namespace scr {
namespace {

constexpr std::string_view kJobStart = "scr.";

// Others must not be able to change what we are about to look at and remove.
std::string safety_fault(const FileInfo& user, const FileInfo& job, bool all_users) {
  if ((user.mode & 022U) != 0 || (job.mode & 022U) != 0) {
    return "its directories can be written by others";
  }
  if (user.uid != job.uid) return "its directories belong to different users";
  if (!all_users && job.uid != ::geteuid()) return "it belongs to another user";
  return {};
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

class Finder {
 public:
  Finder(FileSystem& fs, const std::optional<std::string>& user,
         const std::optional<std::string>& job_id)
      : fs_(fs), user_(user), job_id_(job_id) {}

  void look_in_base(const std::string& base) {
    // The base is the administrator's choice and may well be a symbolic link.
    auto directory = fs_.open_directory(base, /*no_follow=*/false);
    if (!directory.ok()) {
      problem(directory.status());
      return;
    }
    if (user_) {
      look_in_user(**directory, normalize(base, "/"), *user_);
      return;
    }
    const auto entries = fs_.list(At(**directory, "."));
    if (!entries.ok()) {
      problem(entries.status());
      return;
    }
    for (const DirectoryEntry& entry : *entries) {
      if (entry.type != FileInfo::Type::kDirectory) continue;
      look_in_user(**directory, normalize(base, "/"), entry.name);
    }
  }

  FoundJobs take() { return std::move(found_); }

 private:
  void problem(const Status& status) {
    if (status.code() != StatusCode::kNotFound) found_.problems.emplace_back(status.message());
  }

  void look_in_user(const Directory& base, const std::string& base_path, const std::string& user) {
    auto opened = fs_.open_directory(At(base, user));
    if (!opened.ok()) {
      // Of all users: a base such as /dev/shm has many directories that are not ours.
      if (user_) problem(opened.status());
      return;
    }
    const std::shared_ptr<Directory> directory = *std::move(opened);
    const auto entries = fs_.list(At(*directory, "."));
    if (!entries.ok()) {
      problem(entries.status());
      return;
    }
    for (const DirectoryEntry& entry : *entries) {
      if (entry.type != FileInfo::Type::kDirectory || !entry.name.starts_with(kJobStart)) continue;
      const std::string id = entry.name.substr(kJobStart.size());
      if (id.empty() || (job_id_ && !is_of_job(id, *job_id_))) continue;
      const std::string path = (base_path == "/" ? "" : base_path) + "/" + user + "/" + entry.name;
      const Status added = add({user, id}, directory, entry.name, path);
      if (!added.ok()) problem(added);
    }
  }

  Status add(const std::pair<std::string, std::string>& job,
             const std::shared_ptr<Directory>& parent, const std::string& name,
             const std::string& path) {
    SCR_ASSIGN_OR_RETURN(auto directory, fs_.open_directory(At(*parent, name)));
    SCR_ASSIGN_OR_RETURN(const FileInfo info, fs_.info(At(*directory, ".")));
    SCR_ASSIGN_OR_RETURN(const FileInfo parent_info, fs_.info(At(*parent, ".")));
    std::vector<JobDirectory>& known = found_.jobs[job];
    for (JobDirectory& other : known) {
      if (other.info.inode != info.inode || other.info.device != info.device) continue;
      other.paths.push_back(path);
      return {};
    }
    known.push_back({{path},
                     parent,
                     name,
                     std::move(directory),
                     info,
                     safety_fault(parent_info, info, !user_.has_value())});
    return {};
  }

  FileSystem& fs_;
  const std::optional<std::string>& user_;
  const std::optional<std::string>& job_id_;
  FoundJobs found_;
};

}  // namespace

bool is_of_job(std::string_view id, std::string_view job_id) {
  if (!id.starts_with(job_id)) return false;
  const std::string_view slot = id.substr(job_id.size());
  return slot.empty() ||
         ((slot.starts_with(".s") || slot.starts_with(".p")) && is_number(slot.substr(2)));
}

FoundJobs find_job_directories(FileSystem& fs, const std::vector<std::string>& bases,
                               const std::optional<std::string>& user,
                               const std::optional<std::string>& job_id) {
  Finder finder(fs, user, job_id);
  for (const std::string& base : bases) finder.look_in_base(base);
  return finder.take();
}

}  // namespace scr
