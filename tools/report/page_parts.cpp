#include "tools/report/page_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>

#include "core/base/text.hpp"

namespace scr::tools {

std::string html(std::string_view text) {
  std::string safe;
  for (const char letter : text::escape(text)) {
    switch (letter) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      case '\'':
        safe += "&#39;";
        break;
      default:
        safe += letter;
    }
  }
  return safe;
}

std::string time_text(double epoch_seconds) {
  const auto seconds = static_cast<std::time_t>(epoch_seconds);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

double nice_step(double range, int most, bool time) {
  if (range <= 0) return 1;
  const double least = range / most;
  if (time) {
    constexpr std::array<double, 17> kSteps = {1,   2,   5,    10,   15,   30,    60,    120,  300,
                                               600, 900, 1800, 3600, 7200, 21600, 43200, 86400};
    for (const double step : kSteps) {
      if (step >= least && least > 0.25) return step;
    }
    if (least > kSteps.back()) return std::ceil(least / 86400) * 86400;
  }
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
    if (factor * power >= least) return factor * power;
  }
  return 10 * power;
}

TimeScale::TimeScale(const RunLog& log, double left, double width) {
  begin_ = log.start();
  const double end = std::max(log.end(), begin_ + 0.001);
  double active = 0;
  std::vector<Piece> busy;  // times in which something ran, joined
  for (const LoggedEvent& event : log.events) {
    if (busy.empty() || event.start > busy.back().end) {
      busy.push_back({event.start, event.end, 0});
    } else {
      busy.back().end = std::max(busy.back().end, event.end);
    }
  }
  for (const Piece& piece : busy) active += piece.end - piece.start;
  const double long_gap = std::max(active * 0.15, 1.0);
  for (const Piece& piece : busy) {
    if (pieces_.empty()) {
      pieces_.push_back({begin_, piece.end, 0});
    } else if (piece.start - pieces_.back().end > long_gap) {
      gaps_.push_back({pieces_.back().end, piece.start, 0});
      pieces_.push_back(piece);
    } else {
      pieces_.back().end = piece.end;
    }
  }
  if (pieces_.empty()) pieces_.push_back({begin_, end, 0});
  pieces_.back().end = std::max(pieces_.back().end, pieces_.back().start + 0.001);
  double shown = 0;
  for (const Piece& piece : pieces_) shown += piece.end - piece.start;
  scale_ = std::max(width - kGapWidth * static_cast<double>(gaps_.size()), width / 4) / shown;
  double x = left;
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    pieces_[i].x = x;
    x += (pieces_[i].end - pieces_[i].start) * scale_;
    if (i < gaps_.size()) {
      gaps_[i].x = x;
      x += kGapWidth;
    }
  }
}

double TimeScale::x(double time) const {
  for (const Piece& piece : pieces_) {
    if (time <= piece.end) return piece.x + std::max(0.0, time - piece.start) * scale_;
  }
  return pieces_.back().x + (pieces_.back().end - pieces_.back().start) * scale_;
}

std::vector<double> TimeScale::ticks(int most) const {
  double shown = 0;
  for (const Piece& piece : pieces_) shown += piece.end - piece.start;
  const double step = nice_step(shown, most, true);
  std::vector<double> times;
  double last = -1e9;
  for (const Piece& piece : pieces_) {
    const double first = std::ceil((piece.start - begin_) / step - 1e-9);
    for (double i = first; begin_ + i * step <= piece.end + 1e-9 && times.size() < 200; ++i) {
      const double at = x(begin_ + i * step);
      if (at - last < 50) continue;  // after a gap
      last = at;
      times.push_back(i * step);
    }
  }
  return times;
}

}  // namespace scr::tools
