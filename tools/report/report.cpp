#include "tools/report/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/base/byte_size.hpp"
#include "core/base/text.hpp"
#include "h5scr/version.hpp"
#include "tools/report/page_parts.hpp"
#include "tools/report/style.hpp"

namespace scr::tools {
namespace {

using nlohmann::ordered_json;

constexpr std::array<const char*, 5> kTransfers = {"checkpoint", "encode", "flush", "fetch",
                                                   "rebuild"};

std::string rate_text(double rate) { return approximate_byte_size(rate) + "/s"; }

Statistic bandwidths(const RunLog& log, const char* type) {
  std::vector<double> rates;
  for (const LoggedEvent* event : log.of_type(type)) {
    const auto rate = event->bandwidth();
    if (rate && event->ok) rates.push_back(*rate);
  }
  return Statistic::of(rates);
}

double total_seconds(const RunLog& log, const char* type) {
  double seconds = 0;
  for (const LoggedEvent* event : log.of_type(type)) seconds += event->seconds();
  return seconds;
}

std::string card(const std::string& value, const std::string& what, bool alarm = false) {
  return fmt::format("<div class=\"card{}\"><b>{}</b><span>{}</span></div>\n",
                     alarm ? " alarm" : "", html(value), html(what));
}

std::string cards(const RunLog& log, const Result<IntervalAdvice>& advice) {
  double running = 0;
  for (const LoggedRun& run : log.runs) running += run.seconds();
  const auto checkpoints = log.of_type("checkpoint");
  const auto complete = std::ranges::count_if(
      checkpoints, [](const LoggedEvent* event) { return event->ok && !event->cut; });
  const double share = running > 0 ? 100 * total_seconds(log, "checkpoint") / running : 0;
  const std::uint64_t failures = log.failures();
  std::string text = "<div class=\"cards\">\n";
  text += card(duration_text(running), fmt::format("in {} run(s)", log.runs.size()));
  text += card(std::to_string(complete), "complete checkpoints");
  text += card(fmt::format("{:.1f}%", share), "of the time in checkpoints");
  text += card(std::to_string(failures), failures == 1 ? "failure" : "failures", failures > 0);
  if (advice.ok()) {
    if (advice->interval.count > 0) {
      text += card(duration_text(advice->interval.mean), "between checkpoints, on average");
    }
    text += card(duration_text(advice->daly), "is the best interval (Daly)");
  }
  return text + "</div>\n";
}

std::string legend(const RunLog& log) {
  std::string items;
  for (const char* type :
       {"compute", "checkpoint", "output", "encode", "flush", "fetch", "rebuild", "restart"}) {
    if (log.of_type(type).empty()) continue;
    items += fmt::format("<li><i style=\"background:var(--{0})\"></i>{0}</li>", type);
  }
  items += "<li><i style=\"background:var(--node)\"></i>node in a run</li>";
  if (log.failures() > 0) items += "<li><i style=\"background:var(--failure)\"></i>failure</li>";
  return "<ul class=\"legend\">" + items + "</ul>\n";
}

std::string interval_section(const Result<IntervalAdvice>& advice) {
  if (!advice.ok()) {
    return fmt::format("<section><h2>Interval</h2><p>{}</p></section>\n",
                       html(advice.status().message()));
  }
  std::string text =
      fmt::format("A checkpoint costs {}, a restart {}, and there is a failure every {}{}. ",
                  duration_text(advice->c), duration_text(advice->r),
                  advice->mtbf_is_bound ? "(at most) " : "", duration_text(advice->m));
  if (advice->used_efficiency) {
    text += fmt::format("With the interval of {} that was used {:.1f}% of the time is work; ",
                        duration_text(advice->interval.mean), 100 * *advice->used_efficiency);
  }
  text += fmt::format("the best is {} (Daly; Young: {}) with {:.1f}%.", duration_text(advice->daly),
                      duration_text(advice->young), 100 * advice->best_efficiency);
  if (advice->mtbf_is_bound) text += " No failure was seen: a longer interval may be better still.";
  return fmt::format("<section><h2>Share of work by interval</h2><p>{}</p>\n{}</section>\n",
                     html(text), draw_efficiency(*advice));
}

std::string bandwidth_section(const RunLog& log) {
  std::string rows;
  for (const char* type : kTransfers) {
    const Statistic rate = bandwidths(log, type);
    if (rate.count == 0) continue;
    double bytes = 0;
    for (const LoggedEvent* event : log.of_type(type)) {
      if (event->ok) bytes += static_cast<double>(event->bytes.value_or(0));
    }
    rows += fmt::format(
        "<tr><td>{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td><td "
        "class=\"number\">{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td></tr>\n",
        type, rate.count, html(approximate_byte_size(bytes)), html(rate_text(rate.mean)),
        html(rate_text(rate.least)), html(rate_text(rate.most)));
  }
  if (rows.empty()) rows = "<tr><td colspan=\"6\" class=\"none\">The log has none.</td></tr>";
  return "<section><h2>Bandwidths</h2><p>As rank 0 saw them, of what went well.</p><table><tr>"
         "<th>what</th><th class=\"number\">times</th><th class=\"number\">bytes</th><th "
         "class=\"number\">mean</th><th class=\"number\">least</th><th class=\"number\">most</th>"
         "</tr>\n" +
         rows + "</table></section>\n";
}

std::string runs_section(const RunLog& log) {
  std::string rows;
  std::size_t number = 0;
  for (const LoggedRun& run : log.runs) {
    const char* how = run.how == LoggedRun::End::kFinished ? "finished"
                      : run.how == LoggedRun::End::kDied   ? "<span class=\"bad-text\">died</span>"
                                                           : "no end in the log";
    rows += fmt::format(
        "<tr><td class=\"number\">{}</td><td>{}</td><td class=\"number\">{}</td>"
        "<td class=\"number\">{}</td><td class=\"number\">{}</td><td>{}</td></tr>\n",
        ++number, time_text(run.start), html(duration_text(run.seconds())), run.ranks,
        run.nodes.empty() ? "" : std::to_string(run.nodes.size()), how);
  }
  return "<section><h2>Runs</h2><table><tr><th class=\"number\">run</th><th>began (UTC)</th><th "
         "class=\"number\">lasted</th><th class=\"number\">ranks</th><th "
         "class=\"number\">nodes</th><th>end</th></tr>\n" +
         rows + "</table></section>\n";
}

// Runs have a table of their own, and computing ends with each death.
bool is_notable(const LoggedEvent& event) {
  if (event.type == "run" || event.type == "compute") return false;
  return event.type == "node failure" || event.type == "halt" || event.type == "rebuild" ||
         event.type == "fetch" || !event.ok || !event.down_nodes.empty();
}

std::string events_section(const RunLog& log) {
  constexpr std::size_t kMost = 500;
  std::string rows;
  std::size_t count = 0;
  for (const LoggedEvent& event : log.events) {
    if (!is_notable(event) || ++count > kMost) continue;
    std::string what = event.note;
    if (!event.down_nodes.empty()) {
      what = "lost: " + text::join(event.down_nodes, " ") + (what.empty() ? "" : "; " + what);
    }
    const char* state = event.cut ? "cut short" : event.ok ? "" : "failed";
    rows += fmt::format(
        "<tr><td>{}</td><td>{}{}</td><td class=\"number\">{}</td><td><span "
        "class=\"bad-text\">{}</span></td><td>{}</td></tr>\n",
        time_text(event.start), html(event.type),
        event.dataset > 0 ? fmt::format(" of dataset {}", event.dataset) : "",
        event.instant ? "" : html(duration_text(event.seconds())), state, html(what));
  }
  if (rows.empty()) return {};
  return "<section><details open><summary>Failures, recovery, halts</summary><table><tr><th>when "
         "(UTC)</th><th>what</th><th class=\"number\">took</th><th></th><th></th></tr>\n" +
         rows + "</table></details></section>\n";
}

ordered_json event_json(const LoggedEvent& event) {
  ordered_json json = {{"type", event.type}, {"run", event.run}, {"start", event.start},
                       {"end", event.end},   {"ok", event.ok},   {"cut", event.cut}};
  if (event.dataset > 0) json["dataset"] = event.dataset;
  if (!event.name.empty()) json["name"] = event.name;
  if (event.bytes) json["bytes"] = *event.bytes;
  if (const auto rate = event.bandwidth()) json["bandwidth"] = *rate;
  if (!event.down_nodes.empty()) json["down_nodes"] = event.down_nodes;
  if (!event.note.empty()) json["note"] = event.note;
  return json;
}

ordered_json run_json(const LoggedRun& run) {
  const char* how = run.how == LoggedRun::End::kFinished ? "finished"
                    : run.how == LoggedRun::End::kDied   ? "died"
                                                         : "open";
  return {{"id", run.id}, {"start", run.start}, {"end", run.end},
          {"how", how},   {"ranks", run.ranks}, {"nodes", run.nodes}};
}

}  // namespace

std::string report_html(const RunLog& log, const IntervalInput& input) {
  const auto advice = advise(log, input);
  const std::string job = log.runs.empty() ? log.last_job() : log.runs.front().job;
  std::string page = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta "
      "name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Job {0}: "
      "checkpoints</title>\n<style>{1}</style>\n</head>\n<body>\n<main>\n<header><h1>Job "
      "{0}</h1><p>{2} to {3} UTC, {4} node(s)</p></header>\n",
      html(job), kStyle, time_text(log.start()), time_text(log.end()), log.nodes().size());
  page += cards(log, advice);
  page +=
      "<section><h2>Time line</h2><p>What the program and h5scr did, and which nodes took part. "
      "Point at a bar to read more.</p>\n" +
      draw_timeline(log) + legend(log) + "</section>\n";
  page +=
      "<div class=\"pair\">\n<section><h2>Cost of each checkpoint</h2><p>The program waits for "
      "writing and encoding; a flush may go on in the background.</p>\n" +
      draw_checkpoint_costs(log) +
      "<ul class=\"legend\"><li><i style=\"background:var(--checkpoint)\"></i>write</li><li><i "
      "style=\"background:var(--encode)\"></i>encode</li><li><i "
      "style=\"background:var(--flush)\"></i>flush</li></ul></section>\n";
  page += interval_section(advice) + "</div>\n<div class=\"pair\">\n";
  page += bandwidth_section(log) + runs_section(log) + "</div>\n";
  page += events_section(log);
  page +=
      fmt::format("<footer>h5scr {}; {} lines of the log{}</footer>\n</main>\n</body>\n</html>\n",
                  H5SCR_VERSION, log.lines,
                  log.unreadable > 0 ? fmt::format(", {} could not be read", log.unreadable) : "");
  return page;
}

ordered_json report_json(const RunLog& log, const IntervalInput& input) {
  ordered_json json;
  json["job"] = log.last_job();
  json["start"] = log.start();
  json["end"] = log.end();
  json["lines"] = log.lines;
  json["unreadable_lines"] = log.unreadable;
  json["nodes"] = log.nodes();
  json["failures"] = log.failures();
  json["runs"] = ordered_json::array();
  for (const LoggedRun& run : log.runs) json["runs"].push_back(run_json(run));
  for (const char* type : kTransfers) {
    json["bandwidth"][type] = to_json(bandwidths(log, type));
    json["seconds"][type] = total_seconds(log, type);
  }
  const auto advice = advise(log, input);
  json["interval"] = advice.ok() ? to_json(*advice) : ordered_json();
  json["events"] = ordered_json::array();
  for (const LoggedEvent& event : log.events) {
    if (event.type != "run") json["events"].push_back(event_json(event));
  }
  return json;
}

}  // namespace scr::tools
