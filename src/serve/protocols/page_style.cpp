// The page's style: light or dark as the reader prefers, one column on a narrow screen.
#include "serve/protocols/page.h"

namespace mlx::serve {

const char* const kPageStyle = R"css(
:root{color-scheme:light dark;--paper:#f6f7f9;--card:#fff;--ink:#1b2330;--soft:#5b6675;--line:#d9dee6;--accent:#2457d6;--on:#fff;--bad:#b3273a;--mine:#e8eefc}
@media (prefers-color-scheme:dark){:root{--paper:#10141a;--card:#181e27;--ink:#e6eaf0;--soft:#9aa6b5;--line:#2f3845;--accent:#7ba4ff;--on:#10141a;--bad:#ff8391;--mine:#22304d}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Liberation Sans",sans-serif}
body>header,main{max-width:880px;margin:0 auto;padding:0 20px}
body>header{padding-top:32px}
h1{font-size:26px;line-height:1.2;margin:0 0 4px}
h2{font-size:19px;margin:0 0 2px;overflow-wrap:anywhere}
p{margin:0 0 10px}
.soft,dt,summary,label,legend{color:var(--soft)}
.model,#enter{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:20px 22px;margin:18px 0}
dl{display:grid;grid-template-columns:repeat(auto-fit,minmax(105px,1fr));gap:10px;margin:14px 0}
dt{font-size:13px}
dd{margin:0;font-size:19px;font-weight:600;font-variant-numeric:tabular-nums}
pre{margin:8px 0 0;padding:10px 12px;background:var(--paper);border:1px solid var(--line);border-radius:8px;white-space:pre-wrap;overflow-wrap:anywhere;font:13px/1.5 ui-monospace,Menlo,Consolas,"Liberation Mono",monospace}
form{display:grid;gap:10px;margin:12px 0}
.fields{display:grid;grid-template-columns:repeat(auto-fill,minmax(170px,1fr));gap:10px}
label{display:grid;gap:3px;font-size:13px;overflow-wrap:anywhere}
input,select,textarea,button{font:inherit;color:inherit;background:var(--paper);border:1px solid var(--line);border-radius:8px;padding:7px 10px;max-width:100%;min-width:0}
textarea{min-height:76px;resize:vertical}
button{background:var(--accent);color:var(--on);border-color:var(--accent);font-weight:600;cursor:pointer;padding:7px 18px}
button.plain{background:none;color:var(--accent)}
button:disabled{opacity:.5;cursor:default}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
.row{display:flex;flex-wrap:wrap;gap:10px;align-items:end}
.preview{min-width:84px;max-width:220px;max-height:220px;border-radius:8px;image-rendering:auto}
.answers{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
.answers td{padding:3px 10px 3px 0;overflow-wrap:anywhere}
.answers td:nth-child(2){text-align:right;white-space:nowrap}
details{margin-top:12px}
.answers td:nth-child(3){width:45%}
progress{width:100%;height:10px;accent-color:var(--accent)}
.text{white-space:pre-wrap;overflow-wrap:anywhere;padding:9px 13px;border-radius:10px;border:1px solid var(--line);margin:0 0 8px}
.text:empty{min-height:40px}
.user{background:var(--mine);margin-left:12%}
.assistant{margin-right:12%}
.wrong{color:var(--bad);font-weight:600;overflow-wrap:anywhere}
[hidden]{display:none!important}
)css";

}  // namespace mlx::serve
