# shellcheck shell=bash
# Names of any bytes, links and modes come out as they went in.
. "$(dirname "$0")/lib.sh"
mlx init -q .
mkdir -p "data/ü ñ 日本/sub dir"
cd "data/ü ñ 日本"
echo a >"$(printf 'new\nline')"
echo b >"$(printf 'latin1-\xe9\xff')"
echo c >"'quotes\" \$HOME *"
echo d >-dash
echo e >"[brackets]"
echo f >"sub dir/ leading and trailing "
printf '#!/bin/sh\n' >run.sh && chmod 755 run.sh
ln -s run.sh link
ln -s /nowhere/at/all dangling
cd "$work"
expect 0 mlx add "data/ü ñ 日本"
expect 0 mlx commit -m "Namen: ü 日本"
has "$out" "9 files"
expect 0 mlx checkout "data/ü ñ 日本@v1" --to out
same "$(tree_of out)" "$(tree_of "data/ü ñ 日本")"
expect 0 mlx ls "data/ü ñ 日本" --json
same "$(json 'len(d["files"]), sorted(f["path_hex"] for f in d["files"] if "path_hex" in f)')" "(9, ['6c6174696e312de9ff'])"
expect 0 mlx ls "data/ü ñ 日本"
has "$out" 'new\x0aline'
has "$out" 'latin1-\xe9\xff'
expect 0 mlx cat "data/ü ñ 日本:[brackets]"
same "$out" e
expect 0 mlx cat "data/ü ñ 日本:$(printf 'latin1-\xe9\xff')"
same "$out" b
expect 0 mlx log --json
same "$(json 'd["versions"][0]["message"]')" "Namen: ü 日本"
expect 0 mlx status --json
same "$(json 'd["artifacts"][0]["status"]')" clean
echo x >"[abc]"
expect 0 mlx add "[abc]"
