#include "flush/summary.hpp"

#include <fmt/format.h>

#include "core/base/checksum.hpp"
#include "core/base/hash_file.hpp"
#include "flush/parity.hpp"

namespace scr::flush {

namespace {
constexpr int kVersion = 6;  // 5 was the last of SCR 1.1, which kept the files of all ranks in it
}

Hash Summary::to_hash() const {
  Hash hash;
  hash.set_value("VERSION", kVersion);
  hash.set_value("COMPLETE", complete ? 1 : 0);
  hash.set("DSET", dataset.to_hash());
  if (containers) {
    Hash& list = hash.at("CONTAINER");
    list.set_value("SIZE", container_size);
    list.set_value("COUNT", container_count);
    list.set_value("PARITY", container_parity);
    list.set_value("STREAM", stream_size);
    for (std::size_t i = 0; i < parity_crcs.size(); ++i) {
      list.at("CRC").set_value(std::to_string(i), crc32_to_text(parity_crcs[i]));
    }
  }
  return hash;
}

Result<Summary> Summary::from_hash(const Hash& hash) {
  Summary summary;
  SCR_ASSIGN_OR_RETURN(std::int64_t version, hash.require_int("VERSION"));
  if (version != kVersion)
    return corrupt(fmt::format("summary of version {}, this program knows {}", version, kVersion));
  SCR_ASSIGN_OR_RETURN(std::int64_t complete, hash.require_int("COMPLETE"));
  summary.complete = complete == 1;
  const Hash* dataset = hash.get("DSET");
  if (dataset == nullptr) return corrupt("summary without a dataset");
  SCR_ASSIGN_OR_RETURN(summary.dataset, DatasetDescriptor::from_hash(*dataset));
  if (const Hash* list = hash.get("CONTAINER")) {
    summary.containers = true;
    SCR_ASSIGN_OR_RETURN(summary.container_size, list->require_uint("SIZE"));
    SCR_ASSIGN_OR_RETURN(summary.container_count, list->require_uint("COUNT"));
    SCR_ASSIGN_OR_RETURN(summary.container_parity, list->require_uint("PARITY"));
    SCR_ASSIGN_OR_RETURN(summary.stream_size, list->require_uint("STREAM"));
    const std::uint64_t size = summary.container_size;
    if (size == 0 || summary.container_count !=
                         summary.stream_size / size + (summary.stream_size % size != 0 ? 1 : 0)) {
      return corrupt("summary whose containers do not fit its size");
    }
    if (summary.container_count > kMaxContainers ||
        summary.container_parity > kMaxContainerParity) {
      return corrupt("summary with an impossible number of containers");
    }
    const Hash* crcs = list->get("CRC");
    if ((crcs ? crcs->size() : 0) != parity_container_count(summary)) {
      return corrupt("summary that does not have a checksum for each parity container");
    }
    for (std::size_t i = 0; crcs != nullptr && i < crcs->size(); ++i) {
      SCR_ASSIGN_OR_RETURN(std::string text, crcs->require_value(std::to_string(i)));
      SCR_ASSIGN_OR_RETURN(std::uint32_t crc, crc32_from_text(text));
      summary.parity_crcs.push_back(crc);
    }
  }
  return summary;
}

Result<Summary> read_summary(FileSystem& fs, const std::string& directory) {
  const std::string name = directory + "/" + std::string(kSummaryName);
  SCR_ASSIGN_OR_RETURN(Hash hash, read_hash_file(fs, name));
  auto summary = Summary::from_hash(hash);
  if (!summary.ok()) return summary.status().with_context("'" + name + "'");
  return summary;
}

Status write_summary(FileSystem& fs, const std::string& directory, const Summary& summary) {
  return write_hash_file(fs, directory + "/" + std::string(kSummaryName), summary.to_hash(),
                         Durability::kDurable);
}

}  // namespace scr::flush
