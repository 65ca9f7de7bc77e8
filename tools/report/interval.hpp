// How often to write checkpoints: from what they really cost and how often runs really failed.
//
//   Young:  sqrt(2 C M)
//   Daly:   sqrt(2 C M) (1 + 1/3 sqrt(C / 2M) + 1/9 C / 2M) - C   for C < 2M, else M
//
// C is the cost of a checkpoint, M the mean time between failures, R the cost of a restart. The
// share of the time that is work, with an interval t: t / (M e^(R/M) (e^((t+C)/M) - 1)).
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "tools/report/run_log.hpp"

namespace scr::tools {

double young_interval(double cost, double mtbf);
double daly_interval(double cost, double mtbf);
// Between 0 and 1.
double efficiency(double interval, double cost, double mtbf, double restart);

struct Statistic {
  std::size_t count = 0;
  double mean = 0;
  double least = 0;
  double most = 0;
  double total = 0;
  static Statistic of(const std::vector<double>& values);
};

// What is given by hand instead of measured.
struct IntervalInput {
  std::optional<double> cost = {};
  std::optional<double> mtbf = {};
  std::optional<double> restart = {};
};

struct IntervalAdvice {
  Statistic cost = {};      // seconds of each checkpoint
  Statistic interval = {};  // seconds of computing before each
  Statistic restart = {};   // seconds of bringing data back at each start that did
  double run_seconds = 0;   // of all runs
  std::uint64_t failures = 0;
  bool mtbf_is_given = false;
  // Without any failure the mean time between them is at least the time that was seen.
  bool mtbf_is_bound = false;

  double c = 0;  // what was calculated with
  double m = 0;
  double r = 0;
  double young = 0;
  double daly = 0;
  std::optional<double> used_efficiency = {};
  double best_efficiency = 0;
};

// kFailedPrecondition says what the log does not have.
Result<IntervalAdvice> advise(const RunLog& log, const IntervalInput& input);

nlohmann::ordered_json to_json(const Statistic& statistic);
nlohmann::ordered_json to_json(const IntervalAdvice& advice);
std::string to_text(const IntervalAdvice& advice);

// "1.2 s", "4 min 10 s", "3 h 05 min".
std::string duration_text(double seconds);

}  // namespace scr::tools
