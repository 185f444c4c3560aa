# shellcheck shell=bash
# Rules of dataset.toml through the real binary, and hostile ones.
. "$(dirname "$0")/lib.sh"
mlx init -q .
mkdir -p data/h
printf 'age,city\n20,Bonn\n200,Ulm\n30,ann@example.org\n' >data/h/train.csv
printf '[check.columns.age]\ntype = "int"\nrange = [0, 120]\n' >data/h/dataset.toml
mlx add -q data/h && mlx commit -q -m one
expect 1 mlx check data/h --junit junit.xml
has "$out" "train.csv: columns.age.range: 1 of 3 values is not from 0 to 120"
has "$out" "line 3: 200"
has "$out" 'personal = ["city"]'
python3 -c 'import xml.etree.ElementTree as e; assert e.parse("junit.xml").getroot()[0].get("failures") == "1"'
expect 1 mlx check data/h --json
same "$(json 'd["schema"], d["passed"], d["failures"][0]["found"], d["personal"][0]["kind"]')" \
  "('mlx.check/1', False, [{'line': 3, 'value': '200'}], 'email')"
expect 0 mlx show data/h
has "$out" "statistics"

# Inferred rules hold, and are added once.
mkdir free && printf 'x,y\n1,a\n2,b\n' >free/train.csv
expect 0 mlx check --infer --write ./free
expect 0 mlx check ./free
has "$out" passed
error 4 "has [check] already" mlx check --infer --write ./free
error 2 "only with --infer" mlx check --write ./free

# Hostile: unknown keys, wrong and exploding patterns, a huge declaration, ragged and empty tables.
wrong() { printf '%b' "$2" >free/dataset.toml && error 2 "$1" mlx check ./free; }
wrong "dataset.toml:2" '[check]\nrowz = 3\n'
wrong "pattern" '[check.columns.x]\npattern = "("\n'
wrong "too large" '[check.columns.x]\npattern = "((a{1000}){1000}){1000}"\n'
printf '[check.columns.y]\npattern = "(a+)+b"\n' >free/dataset.toml
expect 1 mlx check ./free
head -c 17000000 /dev/zero | tr '\0' '#' >free/dataset.toml
error 2 "too much" mlx check ./free
rm free/dataset.toml
printf 'x,y\n1\n' >ragged.csv && error 6 "line 2" mlx check ./ragged.csv
error 3 "neither" mlx check ./none

# Descriptions, kept with the version; what changed between two.
expect 0 mlx describe data/h --target age
has "$out" "train: 3 rows"
has "$out" "with the target age"
expect 0 mlx describe data/h --json
same "$(json 'd["schema"], d["splits"]["train"]["columns"][0]["max"]')" "('mlx.describe/1', 200.0)"
printf 'age,city\n20,Ulm\n21,Ulm\n' >data/h/train.csv
mlx add -q data/h && mlx commit -q -m two
expect 0 mlx describe data/h@v1 data/h@v2
has "$out" "3 -> 2 items"
has "$out" "lost 'Bonn'"
expect 0 env LC_ALL=C "$mlx_binary" describe data/h
[[ $out != *[^[:ascii:]]* ]] || fail "not ASCII: $out"

# [split] divides one table, and every command sees the parts.
mkdir -p data/one && python3 - <<'P'
rows = "".join(f"{i},{i * 7 % 13},c{i % 20}\n" for i in range(200))
open("data/one/all.csv", "w").write("x,y,who\n" + rows)
P
printf '[split]\nby = "group"\ncolumn = "who"\ntest = 0.2\nvalid = 0.2\n[check]\nleaks = "0%%"\n' >data/one/dataset.toml
mlx add -q data/one && mlx commit -q -m one
expect 0 mlx check data/one
has "$out" "200 items in 3 splits"
train() { printf '[data]\ndataset = "data/one"\ntarget = "y"\nfeatures = ["x"]\nvalid = "valid"\n[model]\nname = "m"\nfamily = "mlp"\nhidden = [4]\n[train]\nepochs = 1\n' >m.toml && mlx train -c m.toml "$@"; }
expect 0 train
expect 0 mlx eval m --data data/one --split test --json
tested=$(json "d['count']")
expect 0 mlx predict m data/one --split test --json
same "$(json "len(d['predictions'])")" "$tested"
error 3 "the dataset has no split 'more'" mlx eval m --data data/one --split more
has "$err" "it has: test, train, valid"
# Rows that differ only in a column that is not read are equal, and a leak.
sed -i 's/^[0-9]*,/1,/' data/one/all.csv
mlx add -q data/one && mlx commit -q -m equal
error 5 "of split 'valid' are in split 'train' too" train
expect 0 train --set data.leaks=100%
# bug: a model that was made while leaks were allowed was the answer where they are refused.
error 5 "of split 'valid' are in split 'train' too" train
expect 0 train --set data.leaks=100%
has "$out" "unchanged"

# Rows that are almost the same: named by check, a warning before a training, refused above a bound.
mkdir -p data/near && python3 - <<'P'
import random
random.seed(5)
rows = [(random.gauss(0, 1), random.gauss(5, 2), random.choice(["Bonn", "BONN", "Ulm", "ULM"])) for _ in range(60)]
write = lambda file, rows: open(f"data/near/{file}.csv", "w").write("a,b,c,city\n" + "".join(f"{a!r},{b!r},{a * b!r},{c}\n" for a, b, c in rows))
write("train", rows)
noisy = [(a * (1 + 1e-8), b, " " + c.upper()) for a, b, c in rows[:8]]
write("valid", noisy + [(a + 1, b - 1, c) for a, b, c in rows[:32]])
P
printf '[check]\nleaks = "0%%"\nnear_duplicates = "0%%"\nnear_leaks = "5%%"\n' >data/near/dataset.toml
mlx add -q data/near && mlx commit -q -m near
expect 1 mlx check data/near
has "$out" "near_leaks: 8 of 40 rows are almost in split 'train' too (20 %), at most 5 % may be"
has "$out" "line 2: as line 2 of train.csv"
expect 1 mlx check data/near --json
same "$(json '[(f["rule"], f["count"]) for f in d["failures"]]')" "[('near_leaks', 8)]"
expect 0 mlx describe data/near
has "$out" "8 of valid are almost like some in train (20.00 %)"
near() { printf '[data]\ndataset = "data/near"\ntarget = "b"\nvalid = "valid"\n[model]\nname = "n"\nfamily = "mlp"\nhidden = [4]\n[train]\nepochs = 1\n' >n.toml && mlx train -c n.toml "$@"; }
error 5 "n.toml: 20 % of split 'valid' are almost the same as some of split 'train', [data] near_leaks allows 1 %: row 1 of valid = row 1 of train, row 2 of" \
  near --set data.near_leaks=1%
has "$err" 'near_leaks = "20%"'
error 2 'near_leaks: expected a share such as "1%"' near --set data.near_leaks=few
expect 0 near --json
has "$err" "20 % of split 'valid' are almost the same as some of split 'train'"
same "$(json "d['summary']['near_leaks']")" 0.2
expect 0 near --set data.near_leaks=100% --force --json
lacks "$err" "almost"
same "$(json "'near_leaks' in d['summary']")" False
expect 0 near --set data.near_leaks=20% --json # the same training: the bound is no part of its key
same "$(json "d['unchanged']")" True
error 5 "20 % of split 'valid' are almost the same" near --set data.near_leaks=1%

# Lines with nearly the same words.
mkdir text && python3 - <<'P'
import random
random.seed(6)
lines = [" ".join(f"w{random.randrange(5000)}" for _ in range(60)) for _ in range(50)]
open("text/train.txt", "w").write("\n".join(lines) + "\n")
changed = lines[3].split()
changed[0] = "new"
open("text/test.txt", "w").write("A line that stands nowhere else, which is longer than forty bytes.\n" + " ".join(changed).upper() + "!\n")
P
printf '[check]\nnear_leaks = "0%%"\n' >text/dataset.toml
expect 1 mlx check ./text
has "$out" "near_leaks: 1 of 2 lines are almost in split 'train' too"
has "$out" "line 2: as line 4 of train.txt"

# What is known of the data is kept with the model: statistics that were measured before the training.
expect 0 mlx describe data/one
expect 0 train --set data.leaks=100% --force
expect 0 mlx show m --json
has "$out" '"kind": "statistics"'

# A page: one file without scripts or links, that compares with the version before.
mkdir -p data/page && printf 'n,<b>c</b>\n1,x & y\n2,"<script>"\n3,z\n' >data/page/train.csv
mlx add -q data/page && mlx commit -q -m first
printf 'n,<b>c</b>\n1,x & y\n2,"<script>"\n3,z\n900,z\n' >data/page/train.csv
mlx add -q data/page && mlx commit -q -m second
expect 0 mlx describe data/page --target n --html page.html --json
same "$(json 'd["bytes"]')" "$(stat -c %s page.html)"
page=$(cat page.html)
has "$page" "Changes since data/page@v1"
has "$page" "&lt;script&gt;"
lacks "$page" "<script"
lacks "$page" "http"
python3 - <<'P'
from html.parser import HTMLParser
class Page(HTMLParser):
    open = []
    def handle_starttag(self, tag, attributes):
        if tag not in ("meta", "br", "img"): self.open.append(tag)
    def handle_endtag(self, tag): assert self.open.pop() == tag, tag
page = Page(); page.feed(open("page.html").read()); assert not page.open, page.open
P
expect 0 mlx describe data/page --target n --html again.html
same "$(cat again.html)" "$page"
error 2 "is a folder" mlx describe data/page --html data

# bug: one number whose square overflows ended check and describe with "JSON cannot hold the number inf".
mkdir extremes
python3 -c "
values = [1e300, -1e308, 'inf', '-inf', 5e-324] + [i % 4 * 1e-310 for i in range(20)] + [1e38, 1e300]
open('extremes/train.csv', 'w').write('a,b,y\\n' + ''.join(f'{v},inf,{i % 2}\\n' for i, v in enumerate(values)))"
expect 0 mlx check ./extremes --json
expect 0 mlx describe ./extremes --target y --json
same "$(json "d['splits']['train']['columns'][0]['numbers']")" 22
expect 0 mlx describe ./extremes --target a --html extremes.html
# bug: a column of infinite numbers against one of many numbers ended in a segmentation fault.
expect 0 mlx describe ./extremes ./data/near
expect 0 mlx describe ./data/near ./extremes
# bug: of a column of infinite numbers, --infer made the rule range = [0, 0].
expect 0 mlx check --infer ./extremes
lacks "$out" "range = [0, 0]"
expect 0 mlx check --infer --write ./extremes
expect 0 mlx check ./extremes
# bug: numbers with 15 digits passed for French national ids.
mkdir decimals
python3 -c "
import random
random.seed(1)
open('decimals/train.csv', 'w').write('a\\n' + ''.join(f'1.{random.randrange(10**14):014}\\n' for _ in range(20000)))"
expect 0 mlx check ./decimals --json
same "$(json "d['personal']")" "[]"
# bug: conversations were read as rows, so that roles which no training takes passed.
mkdir talks && python3 - <<'P'
import json
with open("talks/train.jsonl", "w") as out:
    for i in range(30):
        talk = [{"role": "user", "content": f"Question {i}"}, {"role": "assistant", "content": f"The answer to it is {i}, as always."}]
        if i == 3: talk[0]["role"] = "boss"
        if i == 7: del talk[1]["content"]
        if i == 9: talk = "text"
        out.write(json.dumps({"id": i, "messages": talk}) + "\n")
P
expect 1 mlx check ./talks --json
same "$(json "d['rules'], d['failures'][0]['count'], [f['document'] for f in d['failures'][0]['found']]")" "(['documents'], 3, [1, 2, 3])"
expect 1 mlx check ./talks
has "$out" "documents: 3 documents cannot be read"
has "$out" "train.jsonl: line 4: column 'messages': message 1: \"role\" is 'boss', expected"
has "$out" "train.jsonl: line 8: column 'messages': message 2: no \"content\""
has "$out" "train.jsonl: line 10: column 'messages': expected messages, found something else"
expect 0 mlx describe ./talks
has "$out" "train: 108 lines in train.jsonl"
has "$out" "3 documents cannot be read, the first: train.jsonl: line 4"
sed -i '4d;8d;10d' talks/train.jsonl
expect 0 mlx check ./talks

# bug: a table without rows passed, as did a class that only a test split has.
mkdir classes && printf 'x,c\n1,a\n2,b\n' >classes/train.csv && printf 'x,c\n' >classes/test.csv
printf '[check]\ntarget = "c"\n' >classes/dataset.toml
expect 1 mlx check ./classes
has "$out" "test.csv: rows: it has no rows"
printf '[check]\nrows = [0, 10]\ntarget = "c"\n' >classes/dataset.toml
expect 0 mlx check ./classes
printf 'x,c\n1,b\n2,d\n3,"e\nf"\n' >classes/test.csv
expect 1 mlx check ./classes
has "$out" "test.csv: classes: split 'test' has the classes 'd', 'e f', which split 'train' has not: no model can learn them"

# bug: rows without a target passed, at which a training stops. A test split without any is there to be predicted.
printf 'x,y\n1,0.5\n2,\n3,nan\n4,1e39\n5,-inf\n6,0.25\n' >classes/train.csv && printf 'x,y\n1,\n' >classes/test.csv
printf '[check]\ntarget = "y"\n' >classes/dataset.toml
expect 1 mlx check ./classes
has "$out" "train.csv: target: 4 of 6 values are missing or not finite"
for line in 3 4 5 6; do has "$out" "  line $line: "; done
lacks "$out" "test.csv"

# bug: a value of a category that the training split lacks was left out before a training, and not in a check.
mkdir -p data/unknown && python3 - <<'P'
rows = [(i * 0.37, i * 1.1 + 0.05, i * 2.3 + 0.01, "" if i < 20 else "red", i % 2) for i in range(1, 61)]
write = lambda file, rows: open(f"data/unknown/{file}.csv", "w").write("a,b,c,colour,y\n" + "".join(",".join(map(str, r)) + "\n" for r in rows))
write("train", rows)
write("valid", [r[:3] + ("blue", r[4]) for r in rows[:20]] + [r[:3] + ("RED", r[4]) for r in rows[20:30]])
P
printf '[check]\nleaks = "0%%"\nnear_leaks = "0%%"\n' >data/unknown/dataset.toml
# bug: a dataset in the work tree that was not added got no hint at `mlx add`.
error 3 "no artifact is called 'data/unknown'" mlx train -c n.toml --set data.dataset=data/unknown
has "$err" "data/unknown is in the work tree and was not added: \`mlx add data/unknown\` makes it a dataset"
error 3 "no artifact is called 'data/near/train.csv'" mlx train -c n.toml --set data.dataset=data/near/train.csv
has "$err" "lies in the dataset 'data/near': name that"
mlx add -q data/unknown && mlx commit -q -m unknown
expect 1 mlx check data/unknown --json
same "$(json '[(f["rule"], f["count"]) for f in d["failures"]]')" "[('near_leaks', 10)]"
printf '[data]\ndataset = "data/unknown"\ntarget = "y"\nvalid = "valid"\nleaks = "0%%"\nnear_leaks = "0%%"\n[data.columns]\ny = "category"\n[model]\nname = "u"\nfamily = "mlp"\nhidden = [4]\n[train]\nepochs = 1\n' >u.toml
error 5 "u.toml: 33.3 % of split 'valid' are almost the same as some of split 'train'" mlx train -c u.toml
