// How the HTML report looks.
#pragma once

#include <string_view>

namespace carma::report {

// Colours are from Okabe and Ito's set for all kinds of colour vision, darkened where white text
// stands on them; lines also differ in their dashes, for paper without colour.
inline constexpr std::string_view kStyle = R"css(
:root{color-scheme:light dark;--paper:#fff;--ink:#1b1f24;--soft:#5c6670;--grid:#e2e6ea;--band:#f5f6f8;
--curve:#1f5fa8;--area:#1f5fa826;--mark:#b3261e;--head:#f0f2f5;
--c0:#2f9e77;--c1:#2b6cb0;--c2:#c2571a;--c3:#9b4f96;--c4:#3d8fb8;--c5:#94830b;--c6:#7a5c46;--c7:#6b7480}
@media (prefers-color-scheme:dark){:root{--paper:#15181c;--ink:#e4e7eb;--soft:#9aa4af;--grid:#2b3138;
--band:#1c2025;--curve:#6cabf0;--area:#6cabf033;--mark:#ff7b72;--head:#20252b;
--c0:#3aa981;--c1:#4a86c8;--c2:#d06a2d;--c3:#b069ab;--c4:#4fa0c8;--c5:#a8951a;--c6:#94745c;--c7:#808a96}}
*{box-sizing:border-box}
body{margin:0 auto;padding:24px;max-width:1240px;background:var(--paper);color:var(--ink);
font:14px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
h1{font-size:22px;margin:0 0 4px}h2{font-size:16px;margin:28px 0 8px}
h3{font-size:13px;margin:0 0 4px;font-weight:600;overflow-wrap:anywhere}
p{margin:4px 0;color:var(--soft)}
.scroll{overflow-x:auto;margin-bottom:14px}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:3px 10px;text-align:right;white-space:nowrap;border-bottom:1px solid var(--grid)}
th:first-child,td:first-child{text-align:left}
thead th{background:var(--head);vertical-align:bottom;white-space:normal;max-width:220px;overflow-wrap:anywhere}
td small{color:var(--soft);display:block;font-size:11px;line-height:1.2}
tr.sub td:first-child{padding-left:24px;color:var(--soft)}
.grid{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:12px 24px}
.grid.three{grid-template-columns:repeat(3,minmax(0,1fr))}
.grid.one{grid-template-columns:minmax(0,1fr)}
figure{margin:0;min-width:0}figcaption{font-size:12px;color:var(--soft);margin:0 0 2px}
.tag{display:inline-block;border:1px solid var(--grid);border-radius:3px;padding:0 6px;font-size:11px;
color:var(--soft);font-weight:400;white-space:nowrap}
.key{display:flex;flex-wrap:wrap;gap:4px 16px;font-size:12px;color:var(--soft);margin:4px 0 8px}
.key svg{display:inline-block;width:22px;height:11px;vertical-align:-1px;margin-right:5px}
code{font:12px/1.4 ui-monospace,"DejaVu Sans Mono",monospace;overflow-wrap:anywhere}
dl{margin:0}dt{font-weight:600;margin-top:8px;overflow-wrap:anywhere}dd{margin:0 0 0 0;color:var(--soft)}
svg{display:block;width:100%;height:auto;overflow:visible}
svg text{fill:var(--ink);font-size:11px}svg .tick{fill:var(--soft);font-size:10px}
svg .label{font-size:11px}svg .value{font-size:11px}
svg .inside{fill:#fff;font-size:9px;pointer-events:none}
.mid{text-anchor:middle}.end{text-anchor:end}
.rule,.mark,.error,.curve,.line{vector-effect:non-scaling-stroke}
svg .rule{stroke:var(--grid);fill:none;stroke-width:1}
svg .mark{stroke:var(--mark);fill:none;stroke-width:1;stroke-dasharray:4 3}
svg .error{stroke:var(--ink);fill:none;stroke-width:1}
svg .curve{stroke:var(--curve);fill:none;stroke-width:1.2}
svg .area{fill:var(--area)}svg .range{fill:var(--area)}svg .band{fill:var(--band)}
svg .oom{stroke:var(--mark);fill:none;stroke-width:1.8}
svg .task{stroke:var(--paper);stroke-width:.3}svg .broken{opacity:.55}
svg .crashes{fill:var(--mark)}svg .density{fill:var(--curve)}
.d1{opacity:.15}.d2{opacity:.27}.d3{opacity:.39}.d4{opacity:.51}.d5{opacity:.63}.d6{opacity:.75}.d7{opacity:.87}
.c0{fill:var(--c0)}.c1{fill:var(--c1)}.c2{fill:var(--c2)}.c3{fill:var(--c3)}
.c4{fill:var(--c4)}.c5{fill:var(--c5)}.c6{fill:var(--c6)}.c7{fill:var(--c7)}
.waits{fill:var(--c7);opacity:.55}.runs{fill:var(--curve)}
svg .line{fill:none;stroke-width:1.7}
.l0{stroke:var(--ink)}.l1{stroke:var(--c1);stroke-dasharray:7 3}.l2{stroke:var(--c2)}
.l3{stroke:var(--c0);stroke-dasharray:2 2}.l4{stroke:var(--c3);stroke-dasharray:9 3 2 3}
.l5{stroke:var(--c5)}.l6{stroke:var(--c4);stroke-dasharray:5 2}.l7{stroke:var(--c7)}
@media (max-width:760px){.grid,.grid.three{grid-template-columns:minmax(0,1fr)}}
@page{size:A4 landscape;margin:11mm}
@media print{:root{color-scheme:light;--paper:#fff;--ink:#000;--soft:#444;--grid:#d8dce0;--band:#f4f5f7;
--curve:#1f5fa8;--area:#1f5fa826;--mark:#b3261e;--head:#f0f2f5;
--c0:#2f9e77;--c1:#2b6cb0;--c2:#c2571a;--c3:#9b4f96;--c4:#3d8fb8;--c5:#94830b;--c6:#7a5c46;--c7:#6b7480}
body{padding:0;max-width:none;font-size:11px;print-color-adjust:exact;-webkit-print-color-adjust:exact}
.grid{grid-template-columns:repeat(2,minmax(0,1fr))}.grid.three{grid-template-columns:repeat(3,minmax(0,1fr))}
.grid.one{grid-template-columns:minmax(0,1fr)}
figure,tr{break-inside:avoid}h2,h3,.key{break-after:avoid}.whole{break-inside:avoid-page}
.scroll{overflow:visible;break-inside:avoid}th,td{padding:1px 8px}
td small{display:inline;margin-left:6px;font-size:9px}h2{margin:14px 0 4px;font-size:13px}h1{font-size:18px}}
)css";

}  // namespace carma::report
