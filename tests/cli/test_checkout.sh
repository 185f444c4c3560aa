# shellcheck shell=bash
# checkout of versions: whole, in part, to another folder, linked to the cache; it never overwrites unstored files.
. "$(dirname "$0")/lib.sh"
mlx init -q project && cd project
mkdir -p data/x/train/deep data/x/test
for i in 1 2 3; do echo "train $i" >data/x/train/$i; echo "test $i" >data/x/test/$i; done
echo deep >data/x/train/deep/d
printf '#!/bin/sh\n' >data/x/run && chmod +x data/x/run
ln -s train/1 data/x/link
: >data/x/empty
mlx add -q data/x && mlx commit -q -m first
cp -a data/x ../v1
echo changed >data/x/train/1 && rm data/x/train/2 && echo more >data/x/train/more && echo changed >data/x/test/1
mlx add -q data/x && mlx commit -q -m second
cp -a data/x ../v2
pointer=$(cat data/x.mlx)

# -n says what would be written and removed, and does neither.
before=$(tree_of data/x)
expect 0 mlx checkout -n data/x@v1 --json
same "$(json 'sorted(e["path"] for e in d["artifacts"][0]["write"]), [e["path"] for e in d["artifacts"][0]["remove"]]')" \
  "(['test/1', 'train/1', 'train/2'], ['train/more'])"
expect 0 mlx checkout -n data/x@v1
has "$out" "write   train/2"
has "$out" "remove  train/more"
same "$(tree_of data/x)" "$before"

# A folder of a version, and a file: the rest stays, the pointer too.
expect 0 mlx checkout data/x@v1:train/
same "$(tree_of data/x/train)" "$(tree_of ../v1/train)"
same "$(tree_of data/x/test)" "$(tree_of ../v2/test)"
same "$(cat data/x.mlx)" "$pointer"
expect 0 mlx status --json
same "$(json 'sorted(e["path"] for k in ("new", "modified", "deleted") for e in d["artifacts"][0][k])')" "['train/1', 'train/2', 'train/more']"
expect 0 mlx checkout data/x@v1:test/1
same "$(cat data/x/test/1)" "test 1"
expect 0 mlx checkout data/x
same "$(tree_of data/x)" "$(tree_of ../v2)"
rm -r data/x
expect 0 mlx checkout data/x@v2:train/deep
same "$(cd data && find x -type f)" x/train/deep/d
expect 0 mlx checkout
same "$(tree_of data/x)" "$(tree_of ../v2)"
expect 0 mlx checkout data/x@v1:train data/x@v1:test
same "$(tree_of data/x)" "$(tree_of ../v1)"
expect 0 mlx checkout data/x data/x@v2

# Elsewhere: a folder's files directly, a file under its name.
expect 0 mlx checkout data/x@v1:train --to ../out
same "$(tree_of ../out)" "$(tree_of ../v1/train)"
expect 0 mlx checkout data/x@v1:train/deep/d --to ../one
same "$(tree_of ../one)" "$(tree_of ../v1/train/deep)"
expect 0 mlx checkout data/x@v1 --to ../whole
same "$(tree_of ../whole)" "$(tree_of ../v1)"
error 3 "nothing at 'none'" mlx checkout data/x@v1:none
error 3 "nothing at 'trai'" mlx checkout data/x@v1:trai
# bug: files were written among the repository's own.
for place in .mlx .mlx/x data/../.mlx/packs; do error 2 "inside the repository's own files" mlx checkout data/x@v1 --to $place; done
error 2 "one version at a time" mlx checkout data/x@v1 data/x@v2 --to ../two
error 2 "expected one of" mlx checkout --link soft

# What is not stored is never lost, and nothing else happens either: not to this dataset, not to the one before it.
mkdir -p data/a && echo a >data/a/a1 && mlx add -q data/a && mlx commit -q -m a && rm data/a/a1 && rmdir data/a
echo mine >data/x/train/mine && echo mine >data/x/train/1
before=$(tree_of data)
error 4 "train/1" mlx checkout
error 4 "train/1" mlx checkout data/x@v1:train
error 4 "train/1" mlx checkout -n data/x@v1:train
same "$(tree_of data)" "$before"
expect 0 mlx checkout data/x@v1:test
same "$(cat data/x/train/mine)" mine
expect 0 mlx checkout --force
same "$(tree_of data/x)" "$(tree_of ../v2)"
# A file would replace a folder with ignored files: the error comes before anything changes.
echo '*.tmp' >data/a/.mlxignore && echo plain >data/a/name && mlx add -q data/a && mlx commit -q -m name
rm data/a/name && mkdir data/a/name && echo junk >data/a/name/x.tmp && echo stored >data/a/second && mlx add -q data/a
before=$(tree_of data)
error 4 "data/a/name" mlx checkout data/a@v2
same "$(tree_of data)" "$before"
rm -r data/a/name && mlx checkout -q data/a@v2

# Hard links: clean for status and add, read-only, shared with the cache; a changed one is made anew.
rm -r data/x
expect 0 mlx checkout --link hardlink data/x@v2 --json
same "$(json 'd["artifacts"][0]["linked"]')" 8
same "$(stat -c '%h %a' data/x/train/3)" "2 444"
same "$(stat -c '%h %a' data/x/run)" "2 555"
same "$(stat -c %h data/x/empty)" 1
same "$(readlink data/x/link)" train/1
expect 0 mlx status --json data/x
same "$(json 'd["artifacts"][0]["status"]')" clean
expect 0 mlx add data/x
has "$out" unchanged
expect 0 mlx checkout --link hardlink data/x --to ../linked
same "$(stat -c %i ../linked/train/3)" "$(stat -c %i data/x/train/3)"
chmod u+w data/x/train/3 && echo "oops" >data/x/train/3
expect 0 mlx status --json data/x
same "$(json '[e["path"] for e in d["artifacts"][0]["modified"]]')" "['train/3']"
error 4 "train/3" mlx checkout --link hardlink
expect 0 mlx checkout --link hardlink --force data/x
same "$(cat data/x/train/3)" "train 3"
same "$(cat ../linked/train/3)" "oops"
# The same size and mode, and yet changed: the time tells.
chmod u+w data/x/train/3 && printf 'TRAIN 3\n' >data/x/train/3 && chmod 444 data/x/train/3
rm -r ../linked
expect 0 mlx checkout --link hardlink data/x --to ../linked
same "$(cat ../linked/train/3)" "train 3"
# Only the mode changes: never through a link.
cp --remove-destination data/x/train/3 ../three && chmod 755 ../three && rm -f data/x/train/3 && cp ../three data/x/train/3
printf 'train 3\n' >data/x/train/3
mlx add -q data/x && mlx commit -q -m mode
rm data/x/train/3
expect 0 mlx checkout --link hardlink data/x@v2
expect 0 mlx checkout --link hardlink data/x@v3
same "$(stat -c %a data/x/train/3)" 555
expect 0 mlx checkout data/x@v2
same "$(stat -c %a ../linked/train/3)" 444
# Files of an earlier boot are read before they are used.
boot=$(ls .mlx/cache/files) && mv ".mlx/cache/files/$boot" .mlx/cache/files/0123456789abcdef
find .mlx/cache/files -type f -size 7c -o -type f -size 8c | head -n 1 | while read -r f; do t=$(stat -c %y "$f"); chmod u+w "$f"; tr a-z A-Z <"$f" >x && cat x >"$f"; chmod 444 "$f"; touch -d "$t" "$f"; done
rm -rf ../again
expect 0 mlx checkout --link hardlink data/x@v2 --to ../again
same "$(tree_of ../again | sed 's/ [4-7][4-7][4-7] / /')" "$(tree_of ../v2 | sed 's/ [4-7][4-7][4-7] / /')"
# A reflink if the file system supports it, else a copy with a warning; the files are right either way.
rm -rf ../cloned
expect 0 mlx checkout --link reflink data/x@v2 --to ../cloned
same "$(tree_of ../cloned)" "$(tree_of ../v2)"
rm -rf .mlx/cache ../cloned
expect 0 mlx checkout --link hardlink data/x@v2 --to ../cloned
expect 0 mlx fsck

# A dataset's place that is a link to a folder, such as a hostile clone may bring: nothing behind it is touched.
mkdir ../outside && echo precious >../outside/file
mv data/x ../x.away && ln -s "$(readlink -f ../outside)" data/x
error 4 "is a symbolic link to a folder" mlx checkout data/x@v2 --force
error 4 "is a symbolic link to a folder" mlx checkout data/x@v2:train --force
error 4 "is a symbolic link to a folder" mlx add data/x
error 4 "is a symbolic link to a folder" mlx rm data/x --force
same "$(ls ../outside) $(cat ../outside/file)" "file precious"
rm data/x && mv ../x.away data/x

# bug: the partial files of a killed checkout were taken for data.
cd "$work" && mkdir cut && cd cut && mlx init -q >/dev/null 2>&1
mkdir -p d/sub && echo 1 >d/a && echo 2 >d/sub/b && mlx add -q d >/dev/null && mlx commit -q -m x >/dev/null
echo half >d/.mlx-tmp-999999999-0 && rm d/a && touch -d '1 hour ago' d/.mlx-tmp-999999999-0
expect 0 mlx status
lacks "$out" mlx-tmp
expect 0 mlx checkout d
[ ! -e d/.mlx-tmp-999999999-0 ] || fail "what a killed checkout left is still there"
expect 0 mlx status
has "$out" clean
# bug: a path of the maximum length could be added but not checked out.
long=d/$(python3 -c "print('/'.join(['x' * 200] * 19))")
long=${long:0:$((4090 - ${#PWD}))} && long=${long%/}
mkdir -p "$(dirname "$long")" && echo deep >"$long" && mlx add -q d >/dev/null && rm -rf d
expect 0 mlx checkout d
same "$(cat "$long")" deep

# bug: a partial checkout wrote through a symbolic link in place of a folder above the dataset.
cd "$work" && mkdir -p through elsewhere && cd through && mlx init -q >/dev/null 2>&1
mkdir -p up/d/sub && echo 1 >up/d/sub/a && mlx add -q up/d >/dev/null && mlx commit -q -m x >/dev/null
rm -rf up/d && mv up ../kept-up && ln -s ../elsewhere up && cp ../kept-up/d.mlx ../elsewhere/
error 4 "up is a symbolic link" mlx checkout up/d@v1:sub/
error 4 "up is a symbolic link" mlx checkout up/d@v1
same "$(ls ../elsewhere)" d.mlx
