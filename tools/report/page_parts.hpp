// The drawings of the report (SVG inside HTML) and what they share. Colours are CSS classes, so
// that light and dark are one drawing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/report/interval.hpp"
#include "tools/report/run_log.hpp"

namespace scr::tools {

// Text for HTML and SVG; nothing in it can be markup.
std::string html(std::string_view text);
// "2026-01-02 03:04:05" (UTC).
std::string time_text(double epoch_seconds);

// Steps of 1, 2, 5 (for seconds also 15, 30, 60, ...) that divide a range in at most `most` parts.
double nice_step(double range, int most, bool time);

// Where a time is on the paper. Long times in which nothing ran are cut out.
class TimeScale {
 public:
  struct Gap {
    double start = 0;
    double end = 0;
    double x = 0;  // of the mark on the paper, kGapWidth wide
  };
  static constexpr double kGapWidth = 26;

  TimeScale(const RunLog& log, double left, double width);
  double x(double time) const;
  const std::vector<Gap>& gaps() const { return gaps_; }
  // Times at which to write the clock, seconds since the begin.
  std::vector<double> ticks(int most) const;
  double begin() const { return begin_; }

 private:
  struct Piece {
    double start = 0;
    double end = 0;
    double x = 0;
  };
  double begin_ = 0;
  double scale_ = 1;  // paper units per second
  std::vector<Piece> pieces_;
  std::vector<Gap> gaps_;
};

std::string draw_timeline(const RunLog& log);
std::string draw_checkpoint_costs(const RunLog& log);
std::string draw_efficiency(const IntervalAdvice& advice);

}  // namespace scr::tools
