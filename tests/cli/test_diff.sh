# shellcheck shell=bash
# mlx diff through the binary: forms of the command line, files, tables, images, tensors, models, runs, hostile files.
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
mlx init -q .
mkdir -p data/shop/img/cat data/shop/img/dog
printf 'id,name,price\n1,apple,3\n2,pear,4\n3,fig,5\n' >data/shop/prices.csv
printf '{"id":1,"tags":["a"]}\n{"id":2,"tags":[]}\n' >data/shop/rows.jsonl
printf 'one\ntwo\nthree\n' >data/shop/notes.txt
for i in 1 2 3; do echo "cat $i" >data/shop/img/cat/$i.png; done
echo "a dog" >data/shop/img/dog/1.png
mlx add -q data/shop && mlx commit -q -m one

# Nothing differs: nothing is printed.
expect 0 mlx diff --exit-code
same "$out" ""
expect 0 mlx diff --json
same "$(json "(d['schema'], d['different'], len(d['comparisons']))")" "('mlx.diff/1', False, 1)"

printf 'id,name,price,stock\n1,apple,3.5,9\n3,fig,5,1\n4,plum,7,0\n' >data/shop/prices.csv
printf '{"tags":[ ],"id":2}\n{"id":1,"tags":["a","b"]}\n' >data/shop/rows.jsonl
printf 'one\n2\nthree\n' >data/shop/notes.txt
mv data/shop/img/cat/3.png data/shop/img/dog/3.png
rm data/shop/img/cat/2.png
echo "another cat" >data/shop/img/cat/1.png
printf 'new\n' >data/shop/new.txt

# Against the worktree, in every form that means it.
expect 0 mlx diff
has "$out" "data/shop@v1 -> worktree"
has "$out" "  new       new.txt"
has "$out" "  moved     img/cat/3.png -> img/dog/3.png"
has "$out" "  deleted   img/cat/2.png"
has "$out" "  + column stock (int)"
has "$out" "  ~ column price: int -> float"
has "$out" "  -    2  two"
has "$out" "  +    2  2"
[[ $out =~ img/cat\ +3\ +1\ +-2\ +1 ]] || fail "no count of cats: $out"
everything=$out
for form in "data/shop" "data/shop@v1" "data/shop@v1.." "data/shop/"; do
  expect 0 mlx diff "$form"
  same "$out" "$everything"
done
(cd data && expect 0 mlx diff shop && same "$out" "$everything")
expect 1 mlx diff --exit-code
[ "$(printf '%s\n' "$everything" | wc -L)" -le 80 ] || fail "wider than 80 columns: $everything"

# git's words.
expect 0 mlx diff data/shop --name-only
same "$out" "img/cat/1.png
img/cat/2.png
img/dog/3.png
new.txt
notes.txt
prices.csv
rows.jsonl"
expect 0 mlx diff data/shop --name-status
has "$out" "D	img/cat/2.png"
has "$out" "R	img/cat/3.png	img/dog/3.png"
has "$out" "A	new.txt"
expect 0 mlx diff --name-only
has "$out" "data/shop/new.txt"
expect 0 mlx diff --stat
has "$out" "prices.csv"
lacks "$out" "column"

# Rows by key, in text and JSON.
expect 0 mlx diff data/shop --key id
has "$out" "3 -> 3 rows: 1 added, 1 removed, 1 changed"
has "$out" "  ~ id=1  price 3 -> 3.5"
has "$out" "  - line 3: id=2, name=pear, price=4"
has "$out" '  ~ id=1  tags ["a"] -> ["a","b"]'
expect 0 mlx diff data/shop --key id --json
same "$(json "[(f['path'], f['status']) for f in d['comparisons'][0]['files']]")" \
  "[('img/cat/1.png', 'modified'), ('img/cat/2.png', 'deleted'), ('img/dog/3.png', 'moved'), ('new.txt', 'new'), ('notes.txt', 'modified'), ('prices.csv', 'modified'), ('rows.jsonl', 'modified')]"
same "$(json "[f['rows']['changed_cells'] for f in d['comparisons'][0]['files'] if 'rows' in f]")" "[{'price': 1}, {'tags': 1}]"
same "$(json "d['comparisons'][0]['images'][0]")" \
  "{'folder': 'img/cat', 'before': 3, 'after': 1, 'added': 0, 'removed': 2, 'changed': 1}"
expect 0 mlx diff data/shop -k id,name
has "$out" "  ~ id=1, name=apple  price 3 -> 3.5"
expect 0 mlx diff data/shop --key nothing
has "$out" "compared by content: no column nothing in both"
expect 0 mlx diff data/shop --limit 1
has "$out" "and 6 more (--limit 0 shows all)"

# Two versions, and parts of them.
mlx add -q data/shop && mlx commit -q -m two
for form in "data/shop@v1 data/shop@v2" "data/shop@v1..data/shop@v2" "data/shop@v1..v2" "data/shop@~1 data/shop"; do
  # shellcheck disable=SC2086
  expect 0 mlx diff $form
  has "$out" "data/shop@v1 -> data/shop@v2"
  has "$out" "1 new, 4 modified, 1 moved, 1 deleted, 1 the same"
done
expect 0 mlx diff data/shop@v2..v1
has "$out" "  deleted   new.txt"
expect 0 mlx diff data/shop@v1:prices.csv data/shop@v2:prices.csv --key id
has "$out" "data/shop@v1:prices.csv -> data/shop@v2:prices.csv"
lacks "$out" "notes.txt"
expect 0 mlx diff data/shop@v1:img/cat data/shop@v1:img/dog --name-status
same "$out" "M	1.png
D	2.png
D	3.png"
expect 0 mlx diff data/shop@v1:img
has "$out" "cat/2.png"
expect 0 mlx diff data/shop@v1:img/cat/1.png
has "$out" "data/shop@v1:img/cat/1.png -> worktree:img/cat/1.png"
echo changed >>data/shop/img/dog/1.png
expect 0 mlx diff data/shop/img/dog/1.png
has "$out" "modified"
(cd data/shop/img && expect 0 mlx diff cat && same "$out" "")
mlx checkout data/shop --force >/dev/null 2>&1

# A dataset that is one file.
printf 'a,b\n1,2\n' >data/one.csv
mlx add -q data/one.csv && mlx commit -q -m one.csv
printf 'a,b\n1,3\n' >data/one.csv
expect 0 mlx diff data/one.csv --key a
has "$out" "  ~ a=1  b 2 -> 3"

# A file that is not a table is compared as bytes; the rest of the diff is not affected.
mkdir data/bad
printf 'a,b\n1,2\n' >data/bad/cells.csv
printf '{"a":1}\n' >data/bad/rows.jsonl
printf 'x' >data/bad/t.safetensors
printf 'x' >data/bad/t.npy
printf 'x' >data/bad/l.idx
printf 'id,v\n1,a\n' >data/bad/good.csv
gzip -nc <data/bad/good.csv >data/bad/good.csv.gz
mlx add -q data/bad && mlx commit -q -m bad
printf 'a,b\n1,2,3\n' >data/bad/cells.csv
printf '{"a":\n' >data/bad/rows.jsonl
printf '\377\377\377\377\377\377\377\377{' >data/bad/t.safetensors
printf '\223NUMPY\1\0\377\377' >data/bad/t.npy
printf '\0\0\10\3\377\377\377\377\377\377\377\377\377\377\377\377' >data/bad/l.idx
printf 'id,v\n1,b\n1,c\n' >data/bad/good.csv
gzip -nc <data/bad/good.csv >data/bad/good.csv.gz
expect 0 mlx diff data/bad --key id
has "$out" "cells.csv  compared as bytes: after: line 2: 3 cells, 2 columns"
has "$out" "rows.jsonl  compared as bytes: after: line 1: not JSON"
has "$out" "t.safetensors  compared as bytes"
has "$out" "t.npy  compared as bytes"
has "$out" "l.idx  compared as bytes"
has "$out" "keys that occur twice: 0 before, 1 after; the first after, line 3: id=1"
same "$(grep -c "id=1  v a -> b" <<<"$out")" 2

# Errors.
error 3 "no artifact is called 'nothing'" mlx diff nothing
error 3 "has no version 'v9'" mlx diff data/shop@v9
error 3 "neither" mlx diff data/shop@v1:nowhere
error 2 "two can be compared" mlx diff data/shop data/bad data/one.csv
error 2 "is a run" mlx diff run:1234 data/shop
error 2 "--limit" mlx diff --limit -1
error 2 "has no name" mlx diff --key a,,b
mv data/bad elsewhere
error 3 "is not in the worktree" mlx diff data/bad
expect 0 mlx diff
has "$err" "data/bad is not in the worktree"

# Models and runs.
mkdir "$work/m" && cd "$work/m"
# shellcheck source=trained.sh
source "$here/trained.sh"
mlx eval clf --data data/bars --split test >/dev/null 2>&1
sed -i 's/epochs = 2/epochs = 3/; s/conv = 4/conv = 6/' train.toml
mlx train >/dev/null 2>&1
expect 0 mlx diff clf@v1 clf
has "$out" "clf@v1 -> clf@v2"
[[ $out =~ layers\[0\].conv\ +4\ -\>\ 6 ]] || fail "no parameter: $out"
[[ $out =~ train.epochs\ +2\ -\>\ 3 ]] || fail "no training parameter: $out"
has "$out" "  ~ conv1  conv2d"
has "$out" "[4,3,3,1] -> [6,3,3,1]"
has "$out" "data/bars@v1 test  accuracy"
has "$out" "classifier.bias"
expect 0 mlx diff clf@v1..v2 --json
same "$(json "[v['path'] for v in d['comparisons'][0]['model']['parameters']]")" "['layers[0].conv']"
same "$(json "sorted(t['status'] for f in d['comparisons'][0]['files'] if 'tensors' in f for t in f['tensors']['differ'])")" \
  "['changed', 'reshaped', 'reshaped', 'reshaped']"
expect 0 mlx diff clf@v1
has "$out" "clf@v1 -> clf@v2"
error 2 "models have no files in the worktree" mlx diff clf
mlx quantize clf@v2 --calibrate data/bars >/dev/null 2>&1
expect 0 mlx diff clf@v2 clf@v3 --json
same "$(json "[0 < t['relative'] < 0.02 for f in d['comparisons'][0]['files'] if 'tensors' in f for t in f['tensors']['differ'] if t['tensor'] == 'conv1.weight']")" "[True]"
runs=$(mlx ls --json | python3 -c 'import json,sys; print(*[v["run"] for a in json.load(sys.stdin)["artifacts"] if a["artifact"] == "clf" for v in a["versions"]][:2])')
# shellcheck disable=SC2086
expect 0 mlx diff $runs
[[ $out =~ train.epochs\ +2\ -\>\ 3 ]] || fail "no parameter of a run: $out"
# shellcheck disable=SC2086
expect 1 mlx diff $runs --exit-code --json
same "$(json "(d['schema'], d['different'])")" "('mlx.diff/1', True)"
expect 0 mlx diff "${runs%% *}" "${runs%% *}" --exit-code
same "$out" ""
