// The style sheet of the report.
#pragma once

namespace scr::tools {

inline constexpr const char* kStyle = R"css(
:root {
  color-scheme: light dark;
  --paper: #f6f7f9; --card: #ffffff; --ink: #1c2330; --soft: #5d6675; --line: #e3e7ed; --track: #eef1f5;
  --compute: #a7d8b8; --checkpoint: #2f6fed; --output: #12a4c9; --restart: #7a6cf0; --encode: #9b59d0;
  --flush: #ef9f27; --fetch: #14a38b; --rebuild: #e0559a; --failure: #d92d3a; --node: #b9c4d4;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #12161d; --card: #1a2029; --ink: #e6eaf1; --soft: #98a3b3; --line: #2b3441; --track: #222a35;
    --compute: #3f7a57; --checkpoint: #5a92ff; --output: #33b9dc; --restart: #978bff; --encode: #b784ea;
    --flush: #f2b04c; --fetch: #2fc2a8; --rebuild: #ee77b2; --failure: #ff5d68; --node: #4a586c;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif; }
main { max-width: 1240px; margin: 0 auto; padding: 32px 24px 48px; }
header h1 { margin: 0; font-size: 26px; letter-spacing: -0.01em; }
header p { margin: 4px 0 0; color: var(--soft); }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(170px, 1fr)); gap: 14px; margin: 24px 0; }
.card, section { background: var(--card); border: 1px solid var(--line); border-radius: 12px; }
.card { padding: 14px 16px; }
.card b { display: block; font-size: 22px; letter-spacing: -0.01em; font-variant-numeric: tabular-nums; }
.card span { color: var(--soft); font-size: 13px; }
.card.alarm b { color: var(--failure); }
section { padding: 18px 20px 16px; margin: 0 0 18px; overflow-x: auto; }
h2 { font-size: 16px; margin: 0 0 4px; }
section > p { margin: 0 0 10px; color: var(--soft); font-size: 13.5px; max-width: 75ch; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(460px, 100%), 1fr)); gap: 18px; }
svg { display: block; width: 100%; height: auto; }
svg text { font-size: 11px; fill: var(--soft); font-family: inherit; }
.lane { text-anchor: end; font-size: 12px !important; fill: var(--ink) !important; }
.node { text-anchor: end; }
.tick { text-anchor: middle; } .axis { text-anchor: end; }
.run-text { font-weight: 600; } .gap-text { text-anchor: middle; font-size: 10px !important; }
.track { fill: var(--track); } .grid { stroke: var(--line); stroke-width: 1; fill: none; }
.run-edge { stroke: var(--soft); stroke-width: 1; stroke-dasharray: 2 3; opacity: 0.7; fill: none; }
.gap { fill: var(--paper); stroke: var(--line); }
.death path { stroke: var(--failure); stroke-width: 2; fill: none; }
.halt path { stroke: var(--restart); stroke-width: 1.5; stroke-dasharray: 4 2; fill: none; }
.at-work { fill: var(--node); }
.loss circle { fill: var(--failure); stroke: var(--card); stroke-width: 1.5; }
.loss path { stroke: #fff; stroke-width: 2; stroke-linecap: round; }
rect.compute { fill: var(--compute); } rect.checkpoint { fill: var(--checkpoint); }
rect.output { fill: var(--output); } rect.restart { fill: var(--restart); }
rect.encode { fill: var(--encode); } rect.flush { fill: var(--flush); } rect.fetch { fill: var(--fetch); }
rect.rebuild { fill: var(--rebuild); }
rect.cut { opacity: 0.55; } rect.bad { stroke: var(--failure); stroke-width: 1.5; }
svg rect[class]:hover { filter: brightness(1.12); } rect.track:hover { filter: none; }
.curve { fill: none; stroke: var(--checkpoint); stroke-width: 2.2; }
.curve-area { fill: var(--checkpoint); opacity: 0.09; }
.best path, .used path { stroke-width: 1.5; stroke-dasharray: 3 3; }
.best path { stroke: var(--fetch); } .best circle { fill: var(--fetch); }
.best text { fill: var(--fetch); font-weight: 600; font-size: 12px; }
.used path { stroke: var(--flush); } .used circle { fill: var(--flush); }
.used text { fill: var(--flush); font-weight: 600; font-size: 12px; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 16px; margin: 10px 0 0; padding: 0; list-style: none;
  font-size: 13px; color: var(--soft); }
.legend i { display: inline-block; width: 11px; height: 11px; border-radius: 3px; margin-right: 6px; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; color: var(--soft); border-bottom: 1px solid var(--line); padding: 6px 10px; }
td { border-bottom: 1px solid var(--line); padding: 6px 10px; vertical-align: top; }
tr:last-child td { border-bottom: 0; }
.number { text-align: right; white-space: nowrap; }
.bad-text { color: var(--failure); font-weight: 600; } .none { color: var(--soft); font-size: 13.5px; }
details summary { cursor: pointer; font-weight: 600; font-size: 16px; }
footer { color: var(--soft); font-size: 12.5px; margin-top: 20px; }
)css";

}  // namespace scr::tools
