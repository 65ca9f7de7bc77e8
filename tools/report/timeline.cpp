// The time line: one lane for each kind of work, one for each node.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "core/base/byte_size.hpp"
#include "tools/report/page_parts.hpp"

namespace scr::tools {
namespace {

constexpr double kLeft = 118;
constexpr double kWidth = 1040;
constexpr double kRight = kLeft + kWidth;
constexpr double kLane = 26;
constexpr double kBar = 18;
constexpr double kNodeLane = 16;
constexpr double kNodeBar = 8;
constexpr std::size_t kMostNodes = 48;

struct Lane {
  const char* label;
  std::vector<const char*> types;
};

const std::array<Lane, 4>& lanes() {
  static const std::array<Lane, 4> all = {
      Lane{"program", {"compute", "checkpoint", "output", "restart"}}, Lane{"encode", {"encode"}},
      Lane{"transfer", {"flush", "fetch"}}, Lane{"recovery", {"rebuild"}}};
  return all;
}

std::string css_class(const std::string& type) { return type == "node failure" ? "failure" : type; }

// What the pointer shows.
std::string hint(const LoggedEvent& event, double begin) {
  std::string text = event.type;
  if (event.dataset > 0) text += fmt::format(" of dataset {}", event.dataset);
  if (!event.name.empty()) text += fmt::format(" '{}'", event.name);
  text += fmt::format("\n{} after the begin", duration_text(event.start - begin));
  if (!event.instant) text += fmt::format(", took {}", duration_text(event.seconds()));
  if (event.bytes) {
    text += fmt::format("\n{}", approximate_byte_size(static_cast<double>(*event.bytes)));
    if (const auto rate = event.bandwidth()) {
      text += fmt::format(", {}/s", approximate_byte_size(*rate));
    }
  }
  if (event.cut) text += "\ncut short";
  if (!event.cut && !event.ok) text += "\nFAILED";
  if (!event.note.empty()) text += "\n" + event.note;
  return html(text);
}

class Timeline {
 public:
  explicit Timeline(const RunLog& log) : log_(log), scale_(log, kLeft, kWidth) {}

  std::string draw() {
    double y = 30;
    for (const Lane& lane : lanes()) {
      const bool used = std::ranges::any_of(
          lane.types, [&](const char* type) { return !log_.of_type(type).empty(); });
      if (!used) continue;
      draw_lane(lane, y);
      y += kLane;
    }
    y += 14;
    y = draw_nodes(y);
    draw_frame(y);
    return fmt::format(
        "<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"Time line\">\n{}{}</svg>\n",
        kRight + 14, y + 26, back_, front_);
  }

 private:
  void label(double y, const std::string& text, const char* kind) {
    front_ += fmt::format("<text class=\"{}\" x=\"{:.0f}\" y=\"{:.1f}\">{}</text>\n", kind,
                          kLeft - 12, y, html(text));
  }

  void draw_lane(const Lane& lane, double y) {
    label(y + kBar / 2 + 4, lane.label, "lane");
    back_ += fmt::format(
        "<rect class=\"track\" x=\"{}\" y=\"{:.1f}\" width=\"{}\" height=\"{}\" "
        "rx=\"3\"/>\n",
        kLeft, y, kWidth, kBar);
    for (const char* type : lane.types) {
      double drawn_to = -1;
      for (const LoggedEvent* event : log_.of_type(type)) {
        const double from = scale_.x(event->start);
        const double to = std::max(scale_.x(event->end), from + 1.2);
        // Thousands of events in one dot are one dot.
        if (to < drawn_to + 0.6 && event->ok) continue;
        drawn_to = to;
        const char* state = event->cut ? " cut" : event->ok ? "" : " bad";
        front_ += fmt::format(
            "<rect class=\"{}{}\" x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{}\" "
            "rx=\"1.5\"><title>{}</title></rect>\n",
            css_class(type), state, from, y, to - from, kBar, hint(*event, scale_.begin()));
      }
    }
  }

  // When a node was lost, if it was.
  std::map<std::string, std::vector<const LoggedEvent*>> losses() const {
    std::map<std::string, std::vector<const LoggedEvent*>> lost;
    for (const LoggedEvent& event : log_.events) {
      for (const std::string& node : event.down_nodes) lost[node].push_back(&event);
    }
    return lost;
  }

  double draw_nodes(double y) {
    const auto lost = losses();
    std::vector<std::string> nodes = log_.nodes();
    if (nodes.size() > kMostNodes) {  // those that failed are the story
      std::stable_partition(nodes.begin(), nodes.end(),
                            [&](const std::string& node) { return lost.contains(node); });
    }
    const std::size_t shown = std::min(nodes.size(), kMostNodes);
    for (std::size_t i = 0; i < shown; ++i) {
      draw_node(nodes[i], lost, y);
      y += kNodeLane;
    }
    if (shown < nodes.size()) {
      y += 12;
      front_ += fmt::format("<text class=\"more\" x=\"{}\" y=\"{:.1f}\">and {} more nodes</text>\n",
                            kLeft, y, nodes.size() - shown);
      y += 6;
    }
    return y;
  }

  void draw_node(const std::string& node,
                 const std::map<std::string, std::vector<const LoggedEvent*>>& lost, double y) {
    const double middle = y + kNodeLane / 2;
    label(middle + 3.5, node.size() > 16 ? node.substr(0, 15) + "…" : node, "node");
    for (const LoggedRun& run : log_.runs) {
      const bool takes_part = run.nodes.empty()
                                  ? run.host == node
                                  : std::ranges::find(run.nodes, node) != run.nodes.end();
      if (!takes_part) continue;
      const double from = scale_.x(run.start);
      const double width = std::max(scale_.x(run.end) - from, 1.2);
      front_ += fmt::format(
          "<rect class=\"at-work\" x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{}\" "
          "rx=\"{}\"><title>{}</title></rect>\n",
          from, middle - kNodeBar / 2, width, kNodeBar, kNodeBar / 2,
          html(fmt::format("{} in run {}, {}", node, run.id, duration_text(run.seconds()))));
    }
    const auto found = lost.find(node);
    if (found == lost.end()) return;
    for (const LoggedEvent* event : found->second) {
      front_ += fmt::format(
          "<g class=\"loss\" transform=\"translate({:.2f} {:.1f})\"><circle r=\"7\"/><path "
          "d=\"M-3 -3L3 3M-3 3L3 -3\"/><title>{}</title></g>\n",
          scale_.x(event->start), middle,
          html(node + " was lost\n") + hint(*event, scale_.begin()));
    }
  }

  // Clock, gaps, and where runs begin and end.
  void draw_frame(double bottom) {
    const double top = 24;
    for (const double tick : scale_.ticks(14)) {
      const double x = scale_.x(scale_.begin() + tick);
      back_ += fmt::format("<path class=\"grid\" d=\"M{:.2f} {}V{:.1f}\"/>\n", x, top, bottom);
      back_ += fmt::format("<text class=\"tick\" x=\"{:.2f}\" y=\"{:.1f}\">{}</text>\n", x,
                           bottom + 16, tick == 0 ? "0" : html(duration_text(tick)));
    }
    for (const TimeScale::Gap& gap : scale_.gaps()) {
      back_ += fmt::format(
          "<rect class=\"gap\" x=\"{:.2f}\" y=\"{}\" width=\"{}\" height=\"{:.1f}\"><title>nothing "
          "ran for {}</title></rect>\n",
          gap.x + 4, top, TimeScale::kGapWidth - 8, bottom - top,
          html(duration_text(gap.end - gap.start)));
      front_ += fmt::format(
          "<text class=\"gap-text\" transform=\"translate({:.2f} {:.1f}) rotate(-90)\">{} "
          "idle</text>\n",
          gap.x + TimeScale::kGapWidth / 2 + 3.5, (top + bottom) / 2,
          html(duration_text(gap.end - gap.start)));
    }
    std::size_t number = 0;
    double last_label = -100;
    for (const LoggedRun& run : log_.runs) {
      ++number;
      const double from = scale_.x(run.start);
      const double to = scale_.x(run.end);
      if (from - last_label > 44) {
        front_ += fmt::format("<text class=\"run-text\" x=\"{:.2f}\" y=\"16\">run {}</text>\n",
                              from + 4, number);
        last_label = from;
      }
      back_ += fmt::format("<path class=\"run-edge\" d=\"M{:.2f} 6V{:.1f}\"/>\n", from, bottom);
      if (run.how == LoggedRun::End::kDied) {
        front_ += fmt::format(
            "<g class=\"death\"><path d=\"M{:.2f} {}V{:.1f}\"/><title>run {} died</title></g>\n",
            to, top, bottom, number);
      }
    }
    for (const LoggedEvent* event : log_.of_type("halt")) {
      front_ += fmt::format(
          "<g class=\"halt\"><path d=\"M{0:.2f} {1}V{2:.1f}\"/><title>{3}</title></g>\n",
          scale_.x(event->start), top, bottom, hint(*event, scale_.begin()));
    }
  }

  const RunLog& log_;
  TimeScale scale_;
  std::string back_;
  std::string front_;
};

}  // namespace

std::string draw_timeline(const RunLog& log) { return Timeline(log).draw(); }

}  // namespace scr::tools
