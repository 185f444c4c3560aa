// The page's style: one calm sheet, colours as variables, dark if the reader prefers it, plain on paper.
#include "report/html.h"

namespace mlx::report {

const char* const kStyle = R"css(
:root{--paper:#f6f7f9;--card:#fff;--ink:#1b2330;--soft:#5b6675;--line:#e2e6ec;--accent:#2457d6;--second:#c2570c;--good:#12805c;--bad:#c23a4b;--chip:#eef2fb}
@media (prefers-color-scheme:dark){:root{--paper:#10141a;--card:#181e27;--ink:#e6eaf0;--soft:#9aa6b5;--line:#2a323e;--accent:#7ba4ff;--second:#f2a35e;--good:#4fc79a;--bad:#ff8391;--chip:#222c3d}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Liberation Sans",sans-serif}
main{max-width:1080px;margin:0 auto;padding:40px 24px 64px}
h1{font-size:30px;line-height:1.2;margin:0 0 6px;letter-spacing:-.01em}
h2{font-size:18px;margin:0 0 16px;letter-spacing:-.005em}
h3{font-size:14px;margin:20px 0 8px;color:var(--soft);font-weight:600}
p{margin:0 0 12px}
.soft{color:var(--soft)}
code,pre{font:13px/1.6 ui-monospace,"SF Mono",Menlo,Consolas,"Liberation Mono",monospace}
code{overflow-wrap:anywhere;white-space:pre-line}
pre code{white-space:pre}
svg svg{overflow:hidden}
pre{margin:0;padding:14px 16px;background:var(--paper);border:1px solid var(--line);border-radius:8px;overflow-x:auto}
.chip{display:inline-block;padding:1px 10px;margin:0 6px 6px 0;border-radius:99px;background:var(--chip);color:var(--ink);font-size:13px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(170px,1fr));gap:14px;margin:26px 0}
.tile{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:16px 18px}
.tile .label{color:var(--soft);font-size:13px}
.tile .value{font-size:26px;font-weight:650;letter-spacing:-.02em;font-variant-numeric:tabular-nums;white-space:nowrap}
.tile .note{color:var(--soft);font-size:13px}
section{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:22px 24px;margin:0 0 18px}
.pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(400px,100%),1fr));gap:20px}
figure{margin:0}
.scroll{overflow-x:auto}
svg{display:block;width:100%;height:auto}
svg text{fill:var(--ink);font:12px system-ui,-apple-system,"Segoe UI",Roboto,"Liberation Sans",sans-serif}
svg .heading{font-size:14px;font-weight:600}
svg .tick{fill:var(--soft)}
svg .legend{fill:var(--ink);font-variant-numeric:tabular-nums}
svg .end{text-anchor:end}
svg .middle,svg .cell,svg .name{text-anchor:middle}
.grid{stroke:var(--line);stroke-width:1}
.axis{stroke:var(--soft);stroke-width:1}
.line{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}
.line.faint{stroke-width:1;opacity:.28}
.line.train{stroke:var(--accent)}.dot.train{fill:var(--accent)}
.line.valid{stroke:var(--second)}.dot.valid{fill:var(--second)}
.ranks{min-width:640px}
rect.computing{fill:var(--accent)}
rect.reading{fill:var(--good)}
rect.communicating{fill:var(--second)}
rect.waiting{fill:var(--line)}
.matrix svg{margin:0 auto}
rect.right{fill:var(--accent)}
rect.wrong{fill:var(--second)}
svg .cell{font-size:12.5px;font-variant-numeric:tabular-nums}
svg .cell.zero{fill:var(--soft);opacity:.45}
svg .cell.strong{fill:var(--card);font-weight:600}
.edge{fill:none;stroke:var(--soft);stroke-width:1.5;opacity:.7}
.arrow{fill:var(--soft)}
.node rect{fill:var(--card);stroke:var(--soft);stroke-width:1.2}
.node.dataset rect{stroke:var(--good)}
.node.model rect{stroke:var(--accent)}
.node.run rect{fill:var(--chip);stroke:var(--line)}
.node.subject rect{stroke-width:2.6}
svg .name{font-size:14px;font-weight:600}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
caption{text-align:left;color:var(--soft);padding:0 0 8px;font-size:13px}
th,td{text-align:left;padding:7px 12px 7px 0;border-bottom:1px solid var(--line);vertical-align:top}
thead th{color:var(--soft);font-weight:600;font-size:13px}
tbody th{font-weight:500}
tbody tr:last-child th,tbody tr:last-child td{border-bottom:0}
th.n,td.n{text-align:right;padding-right:0;padding-left:12px;white-space:nowrap}
td.n+td:not(.n),th.n+th:not(.n){padding-left:24px}
.bar{display:inline-block;width:72px;height:6px;border-radius:3px;background:var(--line);margin-left:10px;vertical-align:middle;overflow:hidden}
.bar i{display:block;height:100%;background:var(--accent)}
.bars{width:180px;height:40px}
.bars rect{fill:var(--accent)}
.value-row{display:flex;justify-content:space-between;gap:14px;min-width:220px}
.value-row span:first-child{overflow-wrap:anywhere}
.value-row .soft{white-space:nowrap}
.scroll+.pair,.scroll+.scroll{margin-top:18px}
.thumbs{display:flex;flex-wrap:wrap;gap:10px}
.thumb img{display:block;width:72px;height:72px;border-radius:6px;border:1px solid var(--line);image-rendering:auto}
.thumb figcaption{color:var(--soft);font-size:12px;max-width:72px;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.twins{display:flex;gap:4px;padding:6px;border:1px solid var(--line);border-radius:8px}
.good{color:var(--good)}.bad{color:var(--bad)}
@media (max-width:560px){main{padding:24px 14px 40px}section{padding:16px}}
@media print{:root{--paper:#fff;--card:#fff;--ink:#000;--soft:#444;--line:#ccc;--accent:#1a46b0;--second:#a8480a;--chip:#f2f2f2}
main{padding:0;max-width:none}section,.tile{break-inside:avoid;border-color:#bbb}*{-webkit-print-color-adjust:exact;print-color-adjust:exact}}
)css";

}  // namespace mlx::report
