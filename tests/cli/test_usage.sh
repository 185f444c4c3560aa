# shellcheck shell=bash
# Wrong command lines: exit code 2, what is wrong, and a way on; help is the same however it is asked for.
. "$(dirname "$0")/lib.sh"

error 2 "unknown command 'comit'" mlx comit
has "$err" "did you mean 'commit'"
error 2 "remote: unknown command 'ad'" mlx remote ad
has "$err" "did you mean 'add'"
error 2 "unknown option '--mesage'" mlx commit --mesage x
has "$err" "did you mean '--message'"
error 2 "unknown option '--colr'" mlx --colr always log
error 2 "REF is missing" mlx promote
error 2 "ALIAS is missing" mlx promote a
error 2 "--message TEXT is missing" mlx commit
error 2 "unexpected argument 'c'" mlx tag a b c
# bug: a config without -c got no hint at it.
error 2 "train: unexpected argument 'my x.toml'" mlx train "my x.toml"
has "$err" "did you mean \`mlx train -c 'my x.toml'\`?"
error 2 "needs a value" mlx log -n
error 2 "expected an integer, got '3x'" mlx log -n 3x
error 2 "out of range" mlx log -n 99999999999999999999
error 2 "takes no value" mlx log --runs=yes
error 2 "expected one of auto, always, never, got 'alway'" mlx log --color alway
has "$err" "did you mean 'always'"
error 2 "unknown command 'nope'" mlx help nope
error 3 "No such file" mlx -C "$work/none" log

# Outside of a repository.
for command in status log ls "show x" "cat x:y" "add x" "commit -m m" push fsck; do
  # shellcheck disable=SC2086
  error 3 "not in an mlx repository" mlx $command
done

# Help and version.
expect 0 mlx
overview=$out
has "$overview" "checkout"
expect 0 mlx help
same "$out" "$overview"
expect 0 mlx --help
same "$out" "$overview"
for command in $(mlx completion --words command); do
  expect 0 mlx help "$command"
  text=$out
  has "$text" "usage: mlx $command"
  has "$text" "--color WHEN"
  expect 0 mlx "$command" --help
  same "$out" "$text"
  expect 0 mlx "$command" -h
  same "$out" "$text"
done
# Every guide has a page and every page of section 7 is listed; man shows it.
mkdir guides && printf '#!/bin/sh\necho "man $*"\n' >guides/man && chmod +x guides/man
for page in "$here"/../../man/mlx-*.7; do
  guide=$(basename "$page" .7) guide=${guide#mlx-}
  has "$overview" "  $guide "
  expect 0 env PATH="$work/guides:$PATH" "$mlx_binary" help "$guide"
  same "$out" "man mlx-$guide"
done
error 8 "cannot run man" env PATH="$work/none" "$mlx_binary" help tutorial
expect 0 mlx help remote add
has "$out" "usage: mlx remote add [OPTION]... NAME URL"
expect 0 mlx --version
version=$out
[[ $version =~ ^mlx\ [0-9]+\.[0-9]+\.[0-9]+$ ]] || fail "$version"
expect 0 mlx version
same "$out" "$version"

# Options may stand before the command; -- ends them; the last of one option holds.
mkdir one two
mlx init one -q
error 2 "MLX_THREADS" env MLX_THREADS=many "$mlx_binary" -C one status
expect 0 mlx -C one status
expect 0 mlx -C two -C one status
expect 0 mlx --json -C one status
same "$(json 'd["schema"]')" mlx.status/1
error 3 "--json: no such file" mlx -C one add -- --json
echo x >one/--json
expect 0 mlx -C one add -- --json
