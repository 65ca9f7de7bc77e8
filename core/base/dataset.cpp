#include "core/base/dataset.hpp"

#include <limits>

namespace scr {

namespace {

Result<int> require_count(const Hash& hash, std::string_view key) {
  SCR_ASSIGN_OR_RETURN(std::int64_t value, hash.require_int(key));
  if (value < 0 || value > std::numeric_limits<int>::max()) {
    return corrupt("key '" + std::string(key) + "' has the impossible value " +
                   std::to_string(value));
  }
  return static_cast<int>(value);
}

}  // namespace

Hash DatasetDescriptor::to_hash() const {
  Hash hash;
  hash.set_value("ID", id);
  hash.set_value("NAME", name);
  hash.set_value("CREATED", created);
  hash.set_value("USER", user);
  hash.set_value("JOBNAME", job_name);
  hash.set_value("JOBID", job_id);
  hash.set_value("CLUSTER", cluster);
  if (is_checkpoint()) hash.set_value("CKPT", checkpoint);
  if (output) hash.set_value("OUTPUT", 1);
  hash.set_value("RANKS", ranks);
  hash.set_value("SIZE", size);
  hash.set_value("FILES", files);
  hash.set_value("COMPLETE", complete ? 1 : 0);
  return hash;
}

Result<DatasetDescriptor> DatasetDescriptor::from_hash(const Hash& hash) {
  DatasetDescriptor dataset;
  SCR_ASSIGN_OR_RETURN(dataset.id, require_count(hash, "ID"));
  if (dataset.id < 1) return corrupt("key 'ID' has the impossible value 0");
  SCR_ASSIGN_OR_RETURN(dataset.name, hash.require_value("NAME"));
  SCR_ASSIGN_OR_RETURN(dataset.created, hash.require_int("CREATED"));
  dataset.user = std::string(hash.value("USER").value_or(""));
  dataset.job_name = std::string(hash.value("JOBNAME").value_or(""));
  dataset.job_id = std::string(hash.value("JOBID").value_or(""));
  dataset.cluster = std::string(hash.value("CLUSTER").value_or(""));
  if (hash.contains("CKPT")) {
    SCR_ASSIGN_OR_RETURN(dataset.checkpoint, require_count(hash, "CKPT"));
  }
  dataset.output = hash.value("OUTPUT") == "1";
  if (hash.contains("RANKS")) {  // our addition to SCR's descriptor
    SCR_ASSIGN_OR_RETURN(dataset.ranks, require_count(hash, "RANKS"));
  }
  SCR_ASSIGN_OR_RETURN(dataset.size, hash.require_uint("SIZE"));
  SCR_ASSIGN_OR_RETURN(dataset.files, hash.require_uint("FILES"));
  dataset.complete = hash.value("COMPLETE") == "1";
  return dataset;
}

}  // namespace scr
