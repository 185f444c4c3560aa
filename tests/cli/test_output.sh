# shellcheck shell=bash
# stdout that is closed or full, colour, quiet, progress and the pager.
. "$(dirname "$0")/lib.sh"
mlx init -q .
mkdir -p data/x && for i in $(seq 3000); do echo "$i" >"data/x/a file with a long name, number $i"; done
mlx add -q data/x && mlx commit -q -m many

# A reader that closes early ends mlx quietly, with the code of SIGPIPE if there was more to write.
{ mlx ls data/x 2>"$work/err" || echo "code $?" >"$work/code"; } | head -n 1 >/dev/null
same "$(cat "$work/err")" ""
same "$(cat "$work/code")" "code 141"
if [ -w /dev/full ]; then
  code=0
  mlx log >/dev/full 2>"$work/err" || code=$?
  same "$code" 7
  has "$(cat "$work/err")" "No space left"
fi

escape=$'\e['
expect 0 mlx log
lacks "$out" "$escape"
expect 0 mlx log --color always
has "$out" "$escape"
expect 0 env -u NO_COLOR CLICOLOR_FORCE=1 "$mlx_binary" log
has "$out" "$escape"
expect 0 env NO_COLOR=1 CLICOLOR_FORCE=1 "$mlx_binary" log
lacks "$out" "$escape"
expect 0 env -u NO_COLOR CLICOLOR_FORCE=1 "$mlx_binary" log --color never
lacks "$out" "$escape"
echo x >>"data/x/a file with a long name, number 1"
expect 0 mlx add -q data/x
same "$err" ""

# On a terminal: colour, and long output through the pager.
terminal() { python3 -c 'import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))' "$@"; }
expect 0 terminal env -u NO_COLOR TERM=xterm PAGER="sed s/^/paged:/" "$mlx_binary" log
has "$out" "paged:"
has "$out" "$escape"
expect 0 terminal env PAGER=no-such-pager "$mlx_binary" log
has "$out" "data/x@v1"
expect 0 terminal env PAGER="sed s/^/paged:/" "$mlx_binary" log --json
lacks "$out" "paged:"
expect 2 terminal env PAGER=cat "$mlx_binary" log -n -3

# SIGINT and SIGTERM end with 128 + signal, in order; a second one ends at once.
head -c 6000000 /dev/zero >data/x/big
mlx add -q data/x && mlx commit -q -m big
interrupted() { # SIGNAL CODE READ_ON
  mkfifo pipe
  "$mlx_binary" cat data/x:big >pipe 2>"$work/err" &
  local pid=$! code=0
  exec 3<pipe
  head -c 1000 <&3 >/dev/null
  kill -s "$1" "$pid"
  if [ "$3" = yes ]; then cat <&3 >/dev/null; else sleep 0.05 && kill -s "$1" "$pid"; fi
  wait "$pid" || code=$?
  exec 3<&-
  rm pipe
  same "$code" "$2"
}
interrupted TERM 143 yes
has "$(cat "$work/err")" "terminated"
interrupted TERM 143 no
