// Bars of what each checkpoint cost, and the curve of the interval.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tools/report/page_parts.hpp"

namespace scr::tools {
namespace {

constexpr double kLeft = 64;
constexpr double kWidth = 500;
constexpr double kTop = 14;
constexpr double kHeight = 190;
constexpr double kBottom = kTop + kHeight;

struct Cost {
  double write = 0;  // of the program, without the encoding
  double encode = 0;
  double flush = 0;
};

std::string axis(double most) {
  std::string text;
  const double step = nice_step(most, 5, true);
  for (int i = 0; i * step <= most * 1.0001; ++i) {
    const double y = kBottom - i * step / most * kHeight;
    text += fmt::format("<path class=\"grid\" d=\"M{} {:.1f}H{}\"/>", kLeft, y, kLeft + kWidth);
    text += fmt::format("<text class=\"axis\" x=\"{}\" y=\"{:.1f}\">{}</text>\n", kLeft - 8, y + 4,
                        i == 0 ? "0" : html(duration_text(i * step)));
  }
  return text;
}

std::string bar(const char* kind, double x, double width, double y, double height,
                const std::string& title) {
  return fmt::format(
      "<rect class=\"{}\" x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\"><title>{}"
      "</title></rect>",
      kind, x, y, width, std::max(height, 0.0), html(title));
}

// By order of their beginning.
std::vector<std::pair<const LoggedEvent*, Cost>> costs_of(const RunLog& log) {
  std::map<std::pair<std::string, int>, Cost> others;  // by run (encode) and dataset
  for (const LoggedEvent& event : log.events) {
    if (event.type == "encode") others[{event.run, event.dataset}].encode += event.seconds();
    if (event.type == "flush") others[{event.run, event.dataset}].flush += event.seconds();
  }
  std::vector<std::pair<const LoggedEvent*, Cost>> costs;
  for (const LoggedEvent* event : log.of_type("checkpoint")) {
    if (event->cut) continue;
    Cost cost = others[{event->run, event->dataset}];
    cost.encode = std::min(cost.encode, event->seconds());
    cost.write = event->seconds() - cost.encode;
    costs.emplace_back(event, cost);
  }
  return costs;
}

}  // namespace

std::string draw_checkpoint_costs(const RunLog& log) {
  auto costs = costs_of(log);
  if (costs.empty()) return "<p class=\"none\">No complete checkpoint in the log.</p>";
  constexpr std::size_t kMostBars = 120;
  std::string cut;
  if (costs.size() > kMostBars) {
    cut = fmt::format("<p class=\"none\">The last {} of {}.</p>", kMostBars, costs.size());
    costs.erase(costs.begin(), costs.end() - kMostBars);
  }
  double most = 0;
  for (const auto& [event, cost] : costs) {
    most = std::max({most, cost.write + cost.encode, cost.flush});
  }
  most = std::max(most * 1.05, 1e-6);
  std::string text = axis(most);
  const double slot = std::min(kWidth / static_cast<double>(costs.size()), 60.0);
  double x = kLeft + slot * 0.1;
  std::size_t number = 0;
  const std::size_t every = costs.size() / 12 + 1;
  for (const auto& [event, cost] : costs) {
    const double write = cost.write / most * kHeight;
    const double encode = cost.encode / most * kHeight;
    const double flush = cost.flush / most * kHeight;
    const std::string name = fmt::format("dataset {} '{}'", event->dataset, event->name);
    text += bar("checkpoint", x, slot * 0.45, kBottom - write, write,
                fmt::format("{}: {} to write", name, duration_text(cost.write)));
    text += bar("encode", x, slot * 0.45, kBottom - write - encode, encode,
                fmt::format("{}: {} to encode", name, duration_text(cost.encode)));
    text += bar("flush", x + slot * 0.48, slot * 0.32, kBottom - flush, flush,
                fmt::format("{}: {} to flush", name, duration_text(cost.flush)));
    if (number++ % every == 0) {
      text += fmt::format("<text class=\"tick\" x=\"{:.2f}\" y=\"{}\">{}</text>", x + slot * 0.4,
                          kBottom + 16, event->dataset);
    }
    text += "\n";
    x += slot;
  }
  return fmt::format(
      "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"Cost of each "
      "checkpoint\">\n{}</svg>{}\n",
      kLeft + kWidth + 10, kBottom + 28, text, cut);
}

namespace {

// The share of work by the interval between checkpoints, which is on a logarithmic scale.
class EfficiencyChart {
 public:
  explicit EfficiencyChart(const IntervalAdvice& advice) : advice_(advice) {
    if (advice.interval.count > 0) {
      least_ = std::min(least_, advice.interval.mean / 2);
      most_ = std::max(most_, advice.interval.mean * 2);
    }
    least_ = std::max(least_, 1e-6);
    decades_ = std::log10(most_ / least_);
  }

  std::string grid() const {
    std::string text;
    for (const int percent : {0, 25, 50, 75, 100}) {
      text += fmt::format(
          "<path class=\"grid\" d=\"M{} {:.1f}H{}\"/><text class=\"axis\" x=\"{}\" "
          "y=\"{:.1f}\">{}%</text>\n",
          kLeft, y(percent / 100.0), kLeft + kWidth, kLeft - 8, y(percent / 100.0) + 4, percent);
    }
    double last_tick = -100;
    for (const double seconds : {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 60.0, 600.0, 3600.0,
                                 21600.0, 86400.0, 604800.0, 2592000.0}) {
      if (seconds < least_ || seconds > most_ || x(seconds) - last_tick < 56) continue;
      last_tick = x(seconds);
      text += fmt::format(
          "<path class=\"grid\" d=\"M{0:.1f} {1}V{2}\"/><text class=\"tick\" "
          "x=\"{0:.1f}\" y=\"{3}\">{4}</text>\n",
          last_tick, kTop, kBottom, kBottom + 16, html(duration_text(seconds)));
    }
    return text;
  }

  std::string curve() const {
    constexpr int kPoints = 160;
    std::string line;
    for (int i = 0; i <= kPoints; ++i) {
      const double interval = least_ * std::pow(10, decades_ * i / kPoints);
      line += fmt::format("{}{:.1f} {:.1f}", i == 0 ? "M" : "L", x(interval), height_at(interval));
    }
    return fmt::format(
        "<path class=\"curve-area\" d=\"{0}L{1:.1f} {2}L{3} {2}Z\"/><path "
        "class=\"curve\" d=\"{0}\"/>\n",
        line, x(most_), kBottom, kLeft);
  }

  // An interval on the curve, with its label to the left or right of it.
  std::string mark(const char* kind, const std::string& label, double interval, double height,
                   bool left) const {
    return fmt::format(
        "<g class=\"{0}\"><path d=\"M{1:.1f} {2:.1f}V{3}\"/><circle cx=\"{1:.1f}\" cy=\"{2:.1f}\" "
        "r=\"4.5\"/><text x=\"{4:.1f}\" y=\"{5:.1f}\" text-anchor=\"{6}\">{7}</text></g>\n",
        kind, x(interval), height_at(interval), kBottom, x(interval) + (left ? -8 : 8), height,
        left ? "end" : "start", html(label));
  }

 private:
  double x(double interval) const {
    return kLeft + std::clamp(std::log10(interval / least_) / decades_, 0.0, 1.0) * kWidth;
  }
  static double y(double share) { return kBottom - share * kHeight; }
  double height_at(double interval) const {
    return y(efficiency(interval, advice_.c, advice_.m, advice_.r));
  }

  const IntervalAdvice& advice_;
  double least_ = advice_.daly / 30;
  double most_ = advice_.daly * 30;
  double decades_ = 0;
};

}  // namespace

std::string draw_efficiency(const IntervalAdvice& advice) {
  const EfficiencyChart chart(advice);
  const bool used = advice.interval.count > 0;
  const bool best_is_right = used && advice.daly > advice.interval.mean;
  std::string text = chart.grid() + chart.curve();
  text += chart.mark("best", fmt::format("best {}", duration_text(advice.daly)), advice.daly,
                     kBottom - 12, used && !best_is_right);
  if (used) {
    text += chart.mark("used", fmt::format("used {}", duration_text(advice.interval.mean)),
                       advice.interval.mean, kBottom - 30, best_is_right);
  }
  return fmt::format(
      "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"Share of work by "
      "interval\">\n{}</svg>\n",
      kLeft + kWidth + 10, kBottom + 28, text);
}

}  // namespace scr::tools
