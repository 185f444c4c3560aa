# shellcheck shell=bash
# log, show and commit as someone who knows git expects them: some paths only, one line each, since when.
. "$(dirname "$0")/lib.sh"
mlx init -q . && mkdir -p data/x data/y
echo 1 >data/x/f && echo 1 >data/y/f && mlx add -q data/x data/y
error 3 "nothing was added there" mlx commit data/z -m m
error 2 "outside of the repository" mlx commit /elsewhere -m m
expect 0 mlx commit data/y.mlx -n -m "only y"
has "$out" "would commit data/y"
lacks "$out" data/x
expect 0 mlx commit data/y -m $'only y\n\nand why'
has "$out" "data/y@v1"
lacks "$out" data/x
expect 0 mlx -C data commit x -m "now x"
has "$out" "data/x@v1"
echo 2 >data/x/f && mlx add -q data/x && mlx commit -q -m "x again" && mlx tag -q t data/x@v2

expect 0 mlx log --oneline
same "$(wc -l <<<"$out")" 3
has "$(head -1 <<<"$out")" "data/x@v2 (tag: t)  x again"
has "$(tail -1 <<<"$out")" "data/y@v1  only y"
expect 0 mlx log --oneline data/x@v1 -n 1
same "$(wc -l <<<"$out")" 1
expect 0 mlx log --oneline --since 2000-01-01 --until "0 seconds"
same "$(wc -l <<<"$out")" 3
expect 0 mlx log --json --since "2099-01-01 12:00"
same "$(json 'd["versions"]')" "[]"
expect 0 mlx log --until 2000-01-01
same "$out" ""
error 2 "--since: 'soon' is not a time" mlx log --since soon
expect 0 mlx show data/x@v2
has "$out" "data/x@v1  sha256:"
expect 0 mlx show data/x@v1
has "$out" "led to"
has "$out" "data/x@v2"
