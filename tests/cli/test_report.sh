# mlx report through the real binary: well-formed, self-contained, escaped, atomic.
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
error 3 "mlx init" mlx report --out r.html
mkdir empty && (cd empty && mlx init >/dev/null 2>&1)
error 3 "no model" mlx -C empty report --out r.html
# shellcheck source=trained.sh
source "$here/trained.sh"

expect 0 mlx report --out first.html
has "$(cat first.html)" "has not been measured yet"
mlx eval clf --data data/bars >/dev/null 2>&1
mlx quantize clf --calibrate data/bars >/dev/null 2>&1
mlx eval clf@latest --data data/bars >/dev/null 2>&1
expect 0 mlx report --out report.html --json
same "$(json 'd["schema"], d["model"]')" "('mlx.report/1', 'clf@v2')"
same "$(json 'd["bytes"]')" "$(stat -c %s report.html)"
python3 - <<'PY' || fail "the page is not as it should be"
from html.parser import HTMLParser
import re
text = open("report.html", encoding="utf-8").read()
void = {"meta", "br", "link", "img", "input", "hr"}
class Page(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.sections, self.tags = [], [], set()
    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        for key, value in attributes:
            assert key not in ("src", "href", "onload", "onclick"), (tag, key, value)
        if tag == "section": self.sections.append(dict(attributes)["id"])
        if tag not in void: self.open.append(tag)
    def handle_startendtag(self, tag, attributes):
        self.tags.add(tag)
    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, (tag, self.open[-3:], self.getpos())
        self.open.pop()
page = Page()
page.feed(text)
assert not page.open, page.open
assert page.sections == ["quantization", "training", "evaluation", "lineage", "environment", "reproduce"], page.sections
assert not page.tags & {"script", "link", "img", "iframe", "object"}, page.tags
assert not re.search(r"https?://|url\((?!#)|@import", text)
assert "&lt;b&gt;upright&lt;/b&gt; &amp; &quot;more&quot;" in text and "<b>upright" not in text
assert text.count("<svg class=\"lineage\"") == 1 and "predicted" in text
PY
expect 0 mlx report clf@v2 --out -
same "$out" "$(cat report.html)"
expect 0 mlx report clf@v1 --out report.html
has "$(cat report.html)" "<h1>clf@v1</h1>"
error 2 "is a folder" mlx report --out data
error 2 "stdout" mlx report --out - --json
error 2 "is a dataset" mlx report data/bars --out r.html
error 3 "clg" mlx report clg --out r.html
error 3 "" mlx report --out no/such/folder/r.html
[ ! -e r.html ] || fail "a file was left behind"
