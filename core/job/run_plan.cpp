#include "core/job/run_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/text.hpp"
#include "core/job/batch_system.hpp"
#include "core/job/time_text.hpp"
#include "redundancy/form_sets.hpp"

namespace scr::job {
namespace {

std::string routes(const JobSettings& job) {
  std::string text;
  for (const config::RouteRule& rule : job.config().routes()) {
    text += fmt::format("  files like {}: {}\n", rule.pattern, config::route_type_name(rule.type));
  }
  if (!text.empty()) return text + "  all else as without h5scr\n";
  return fmt::format("  files that are created for writing below {}\n  all else as without h5scr\n",
                     job.prefix());
}

// Parts of the job that fail each by itself, as far as a run can spread over them.
int failure_groups(const JobSettings& job, RunLoop& loop, const std::string& group) {
  const std::size_t nodes = std::min<std::size_t>(
      loop.nodes().size(), loop.command().node_count().value_or(loop.nodes().size()));
  if (group == "NODE") return static_cast<int>(nodes);
  if (group == "WORLD") return 1;
  std::set<std::string> values;
  for (const config::GroupDescriptor& descriptor : job.config().groups()) {
    if (std::ranges::find(loop.nodes(), descriptor.host) == loop.nodes().end()) continue;
    for (const auto& [name, value] : descriptor.groups) {
      if (name == group) values.insert(value);
    }
  }
  return static_cast<int>(std::min(values.size(), nodes));
}

std::string survives(const config::RedundancyDescriptor& descriptor, int groups) {
  const std::string group = descriptor.group == "NODE" ? "node" : descriptor.group + " group";
  if (descriptor.type == config::CopyType::kSingle) return fmt::format("no loss of a {}", group);
  if (groups < 2) {
    return fmt::format("no loss: there is one {}, so nobody else can keep a copy", group);
  }
  if (descriptor.type == config::CopyType::kPartner) {
    return fmt::format("the loss of any one {}, and of more that are not neighbours", group);
  }
  redundancy::SetRequest request;
  request.scheme = descriptor.type == config::CopyType::kRs ? redundancy::Scheme::kReedSolomon
                                                            : redundancy::Scheme::kXor;
  request.set_size = static_cast<int>(descriptor.set_size);
  request.failures = static_cast<int>(descriptor.set_failures);
  const redundancy::SetSizes sizes = redundancy::set_sizes(request, groups);
  return fmt::format(
      "the loss of {} in each set of {}",
      sizes.failures == 1 ? "one " + group : fmt::format("{} {}s", sizes.failures, group),
      sizes.smallest == sizes.largest ? fmt::to_string(sizes.smallest)
                                      : fmt::format("{} or {}", sizes.smallest, sizes.largest));
}

std::string redundancy(const JobSettings& job, RunLoop& loop) {
  std::string text;
  for (const config::RedundancyDescriptor& descriptor : job.config().redundancy()) {
    if (!descriptor.enabled) continue;
    text += fmt::format(
        "  every {}: {} in {}/{}: survives {}\n",
        descriptor.interval == 1 ? "checkpoint"
                                 : fmt::format("{}th checkpoint", descriptor.interval),
        config::copy_type_name(descriptor.type), descriptor.store, job.info().private_path(),
        survives(descriptor, failure_groups(job, loop, descriptor.group)));
  }
  return text;
}

std::string limits(const JobSettings& job, std::int64_t runs) {
  std::string text;
  const config::Config& config = job.config();
  if (const auto end = job_end_time(config, job.environment())) {
    text += fmt::format("  the job ends at {}", format_time(*end));
    const double before = config.get_double("SCR_HALT_SECONDS");
    text += before > 0 ? fmt::format(", the program {:.0f} seconds before\n", before)
                       : "; SCR_HALT_SECONDS would end the program in time\n";
  }
  if (const double watch = config.get_double("SCR_WATCHDOG_TIMEOUT"); watch > 0) {
    text += fmt::format("  a program without a checkpoint for {:.0f} seconds is ended\n", watch);
  }
  text += runs < 0 ? "  no limit of runs\n" : fmt::format("  runs at most: {}\n", runs);
  return text;
}

}  // namespace

std::string describe_plan(const JobSettings& job, RunLoop& loop) {
  std::string text =
      fmt::format("job {} of {} under {}, {} nodes: {}\n", job.info().job_id, job.info().user,
                  batch_system_name(detect_batch_system(job.environment())) == "none"
                      ? "no batch system"
                      : batch_system_name(detect_batch_system(job.environment())),
                  loop.nodes().size(), compress_hosts(loop.nodes()));
  text += fmt::format("other nodes are reached by {}\n", loop.shell().name());
  text += "goes to the cache:\n" + routes(job);
  text += "is protected there:\n" + redundancy(job, loop);
  text +=
      fmt::format("is copied to {}:\n  {}\n", job.prefix(),
                  job.config().get_uint("SCR_FLUSH") == 0
                      ? "nothing (SCR_FLUSH=0)"
                      : "as SCR_FLUSH says; every dataset of a program that does not call SCR_*");
  text += "limits:\n" + limits(job, loop.runs());
  const auto command = loop.next_command();
  text += fmt::format(
      "starts by {}:\n  {}\n", loop.command().kind_name(),
      command.ok() ? shell_quoted(command->words()) : std::string(command.status().message()));
  return text;
}

nlohmann::ordered_json plan_json(const JobSettings& job, RunLoop& loop) {
  using nlohmann::ordered_json;
  ordered_json routed = ordered_json::array();
  for (const config::RouteRule& rule : job.config().routes())
    routed.push_back({{"pattern", rule.pattern}, {"type", config::route_type_name(rule.type)}});
  ordered_json kept = ordered_json::array();
  for (const config::RedundancyDescriptor& descriptor : job.config().redundancy()) {
    if (!descriptor.enabled) continue;
    kept.push_back(
        {{"interval", descriptor.interval},
         {"type", config::copy_type_name(descriptor.type)},
         {"cache", fmt::format("{}/{}", descriptor.store, job.info().private_path())},
         {"survives", survives(descriptor, failure_groups(job, loop, descriptor.group))}});
  }
  ordered_json plan = {{"job", job.info().job_id},
                       {"user", job.info().user},
                       {"batch_system", batch_system_name(detect_batch_system(job.environment()))},
                       {"prefix", job.prefix()},
                       {"nodes", loop.nodes()},
                       {"remote_shell", loop.shell().name()},
                       {"routes", std::move(routed)},
                       {"redundancy", std::move(kept)},
                       {"runs", loop.runs()},
                       {"launcher", loop.command().kind_name()}};
  if (const auto end = job_end_time(job.config(), job.environment())) plan["end_time"] = *end;
  const auto command = loop.next_command();
  if (command.ok()) {
    plan["command"] = command->words();
  } else {
    plan["failure"] = command.status().message();
  }
  return plan;
}

}  // namespace scr::job
