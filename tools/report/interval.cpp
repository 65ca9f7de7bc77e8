#include "tools/report/interval.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace scr::tools {
namespace {

// Of each run: what brought data back before the program computed again.
std::vector<double> restart_costs(const RunLog& log) {
  std::vector<double> costs;
  for (const LoggedRun& run : log.runs) {
    double seconds = 0;
    for (const LoggedEvent& event : log.events) {
      const bool restores =
          event.type == "rebuild" || event.type == "fetch" || event.type == "restart";
      if (restores && event.job == run.job && event.run == run.id) seconds += event.seconds();
    }
    if (seconds > 0) costs.push_back(seconds);
  }
  return costs;
}

std::vector<double> checkpoint_costs(const RunLog& log) {
  std::vector<double> costs;
  for (const LoggedEvent* event : log.of_type("checkpoint")) {
    if (!event->cut && event->ok) costs.push_back(event->seconds());
  }
  return costs;
}

// Computing that ended with a checkpoint, not with the run.
std::vector<double> intervals(const RunLog& log) {
  std::vector<double> seconds;
  const LoggedEvent* compute = nullptr;
  for (const LoggedEvent& event : log.events) {
    if (event.type == "compute") compute = &event;
    if (event.type != "checkpoint" || compute == nullptr) continue;
    if (compute->run == event.run && compute->job == event.job && !compute->cut) {
      seconds.push_back(compute->seconds());
    }
    compute = nullptr;
  }
  return seconds;
}

}  // namespace

double young_interval(double cost, double mtbf) { return std::sqrt(2 * cost * mtbf); }

double daly_interval(double cost, double mtbf) {
  if (cost >= 2 * mtbf) return mtbf;
  const double ratio = cost / (2 * mtbf);
  return std::sqrt(2 * cost * mtbf) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - cost;
}

double efficiency(double interval, double cost, double mtbf, double restart) {
  if (interval <= 0 || mtbf <= 0) return 0;
  const double lost = mtbf * std::exp(restart / mtbf) * std::expm1((interval + cost) / mtbf);
  return std::isfinite(lost) && lost > 0 ? std::min(1.0, interval / lost) : 0;
}

Statistic Statistic::of(const std::vector<double>& values) {
  Statistic statistic;
  statistic.count = values.size();
  if (values.empty()) return statistic;
  statistic.total = std::accumulate(values.begin(), values.end(), 0.0);
  statistic.mean = statistic.total / static_cast<double>(values.size());
  statistic.least = *std::ranges::min_element(values);
  statistic.most = *std::ranges::max_element(values);
  return statistic;
}

Result<IntervalAdvice> advise(const RunLog& log, const IntervalInput& input) {
  IntervalAdvice advice;
  advice.cost = Statistic::of(checkpoint_costs(log));
  advice.interval = Statistic::of(intervals(log));
  advice.restart = Statistic::of(restart_costs(log));
  for (const LoggedRun& run : log.runs) advice.run_seconds += run.seconds();
  advice.failures = log.failures();

  if (!input.cost && advice.cost.count == 0) {
    return failed_precondition(
        "the log has no complete checkpoint; give the seconds that one costs with --cost");
  }
  advice.c = std::max(input.cost.value_or(advice.cost.mean), 1e-6);
  advice.mtbf_is_given = input.mtbf.has_value();
  advice.mtbf_is_bound = !input.mtbf && advice.failures == 0;
  advice.m = input.mtbf.value_or(advice.run_seconds /
                                 static_cast<double>(std::max<std::uint64_t>(advice.failures, 1)));
  if (advice.m <= 0) {
    return failed_precondition(
        "the log has no run that lasted; give the seconds between failures with --mtbf");
  }
  advice.r = input.restart.value_or(advice.restart.mean);
  advice.young = young_interval(advice.c, advice.m);
  advice.daly = daly_interval(advice.c, advice.m);
  advice.best_efficiency = efficiency(advice.daly, advice.c, advice.m, advice.r);
  if (advice.interval.count > 0) {
    advice.used_efficiency = efficiency(advice.interval.mean, advice.c, advice.m, advice.r);
  }
  return advice;
}

nlohmann::ordered_json to_json(const Statistic& statistic) {
  return {{"count", statistic.count},
          {"mean", statistic.mean},
          {"least", statistic.least},
          {"most", statistic.most},
          {"total", statistic.total}};
}

nlohmann::ordered_json to_json(const IntervalAdvice& advice) {
  nlohmann::ordered_json json = {{"checkpoint_seconds", to_json(advice.cost)},
                                 {"interval_seconds", to_json(advice.interval)},
                                 {"restart_seconds", to_json(advice.restart)},
                                 {"run_seconds", advice.run_seconds},
                                 {"failures", advice.failures},
                                 {"cost", advice.c},
                                 {"mtbf", advice.m},
                                 {"mtbf_is_lower_bound", advice.mtbf_is_bound},
                                 {"restart", advice.r},
                                 {"young_seconds", advice.young},
                                 {"daly_seconds", advice.daly},
                                 {"best_efficiency", advice.best_efficiency}};
  json["used_efficiency"] = advice.used_efficiency ? nlohmann::ordered_json(*advice.used_efficiency)
                                                   : nlohmann::ordered_json();
  return json;
}

std::string to_text(const IntervalAdvice& advice) {
  std::string text = fmt::format("cost of a checkpoint:       {}", duration_text(advice.c));
  if (advice.cost.count > 0) {
    text += fmt::format("  ({} seen, {} to {})", advice.cost.count,
                        duration_text(advice.cost.least), duration_text(advice.cost.most));
  }
  text += fmt::format("\ntime between failures:      {}{}", advice.mtbf_is_bound ? "at least " : "",
                      duration_text(advice.m));
  if (!advice.mtbf_is_given) {
    text +=
        fmt::format("  ({} failure(s) in {})", advice.failures, duration_text(advice.run_seconds));
  }
  text += fmt::format("\ncost of a restart:          {}\n", duration_text(advice.r));
  text += fmt::format("best interval (Young):      {}\n", duration_text(advice.young));
  text += fmt::format("best interval (Daly):       {}  ({:.1f}% of the time is work)\n",
                      duration_text(advice.daly), 100 * advice.best_efficiency);
  if (advice.used_efficiency) {
    text += fmt::format("interval that was used:     {}  ({:.1f}% of the time is work)\n",
                        duration_text(advice.interval.mean), 100 * *advice.used_efficiency);
  }
  return text + fmt::format("SCR_CHECKPOINT_SECONDS={:.0f}\n", std::max(1.0, advice.daly));
}

std::string duration_text(double seconds) {
  if (seconds < 0.001) return fmt::format("{:.0f} µs", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.3g} ms", seconds * 1e3);
  if (seconds < 60) return fmt::format("{:.3g} s", seconds);
  const auto whole = static_cast<std::uint64_t>(std::min(std::round(seconds), 1e15));
  const auto two = [](std::uint64_t large, const char* unit, std::uint64_t small,
                      const char* small_unit) {
    return small == 0 ? fmt::format("{} {}", large, unit)
                      : fmt::format("{} {} {:02} {}", large, unit, small, small_unit);
  };
  if (whole < 3600) return two(whole / 60, "min", whole % 60, "s");
  if (whole < 86400) return two(whole / 3600, "h", whole % 3600 / 60, "min");
  return two(whole / 86400, "d", whole % 86400 / 3600, "h");
}

}  // namespace scr::tools
