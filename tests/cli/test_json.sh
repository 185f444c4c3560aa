# shellcheck shell=bash
# --json is exactly one document with its schema, on stdout alone; errors stay text on stderr.
. "$(dirname "$0")/lib.sh"
mlx init -q .
mkdir -p data/x && echo a >data/x/a
expect 0 mlx add data/x --json
same "$(json 'd["schema"], d["artifacts"][0]["status"]')" "('mlx.add/1', 'added')"
expect 0 mlx commit -m m --json
same "$(json 'd["schema"], d["versions"][0]["name"]')" "('mlx.commit/1', 'data/x@v1')"
check() { # SCHEMA COMMAND...
  local schema=$1
  shift
  expect 0 mlx "$@" --json
  same "$(json 'd["schema"]')" "$schema"
  same "$err" ""
}
check mlx.init/1 init
check mlx.add/1 add -n data/x
check mlx.commit/1 commit -m again
check mlx.status/1 status
check mlx.log/1 log
check mlx.log/1 log --runs
check mlx.show/1 show data/x
check mlx.ls/1 ls
check mlx.ls/1 ls data/x
check mlx.cat/1 cat data/x:a
same "$(json '[(f["name"], f["version"], f["path"], f["bytes"], f["text"]) for f in d["files"]]')" "[('data/x:a', 'data/x@v1', 'a', 2, 'a\\n')]"
printf '\377\000x' >binary && mlx add -q binary
check mlx.cat/1 cat binary:binary
same "$(json 'd["files"][0]["base64"], "text" in d["files"][0]')" "('/wB4', False)"
check mlx.checkout/1 checkout
check mlx.checkout/1 checkout data/x@v1 --to out
check mlx.tag/1 tag t data/x
check mlx.promote/1 promote data/x p
check mlx.rollback/1 rollback data/x@p --to v1
check mlx.lineage/1 lineage data/x
check mlx.remote/1 remote add origin store
check mlx.remote/1 remote list
check mlx.push/1 push
check mlx.fetch/1 fetch
check mlx.pull/1 pull
check mlx.fsck/1 fsck
check mlx.version/1 version
error 3 "no version" mlx show data/x@v9 --json
error 2 "unknown option" mlx log --json --nope
