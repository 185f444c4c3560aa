# shellcheck shell=bash
# Listing versions by folder, and printing files of them byte by byte.
. "$(dirname "$0")/lib.sh"
mlx init -q .
mkdir -p data/x/train/deep data/x/train2
printf 'a\0\xff\n' >data/x/train/bin && echo deep >data/x/train/deep/d && echo two >data/x/train2/t && echo top >data/x/top
mlx add -q data/x && mlx commit -q -m first
expect 0 mlx ls -d data/x --json
same "$(json '[(f["path"], f["files"], f["bytes"]) for f in d["folders"]]')" "[('train/', 2, 9), ('train2/', 1, 4)]"
same "$(json 'len(d["files"])')" 4
expect 0 mlx ls -d data/x@v1:train/
has "$out" train/bin
has "$out" "1 file"
has "$out" train/deep/
lacks "$out" train2
lacks "$out" deep/d
expect 0 mlx ls data/x:train
has "$out" train/deep/d
lacks "$out" train2
error 3 "nothing at 'trai'" mlx ls -d data/x:trai
mlx cat data/x:train/bin data/x@v1:top >both
cat data/x/train/bin data/x/top | cmp - both || fail "not the same bytes"
error 3 "'train' is a folder" mlx cat data/x:train
error 3 "'train/deep' is a folder" mlx cat data/x:train/deep/
error 3 "no file 'none'" mlx cat data/x:top data/x:none
error 2 "names no file" mlx cat data/x
error 2 "missing" mlx cat
