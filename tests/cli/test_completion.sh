# shellcheck shell=bash
# Completion through the shells themselves, and pages that man's own checker accepts.
. "$(dirname "$0")/lib.sh"
mlx init -q .
mkdir -p data/x && echo a >data/x/a
mlx add -q data/x && mlx commit -q -m m && mlx promote -q data/x production && mlx remote add -q origin store

mkdir bin && ln -s "$mlx_binary" bin/mlx
PATH="$work/bin:$PATH"
compopt() { :; }
eval "$(mlx completion bash)"
# complete LINE: the completions that bash offers at its end.
offers() {
  COMP_LINE=$1 COMP_POINT=${#1} COMPREPLY=()
  _mlx
  offered=" ${COMPREPLY[*]} "
}
offers "mlx che"
same "$offered" " checkout check "
offers "mlx "
has "$offered" " commit "
offers "mlx remote "
same "$offered" " add list remove "
offers "mlx push "
same "$offered" " origin "
offers "mlx show data/x@"
has "$offered" " production "
has "$offered" " v1 "
offers "mlx show data/x@pro"
same "$offered" " production "
# Paths inside a version, folder by folder; names are never split and never expanded.
mkdir -p 'data/my set/sub folder' && echo one >'data/my set/a file' && echo two >'data/my set/sub folder/b'
echo three >"data/my set/\$(touch evil)"
mlx add -q 'data/my set' >/dev/null && mlx commit -q -m names >/dev/null
offers "mlx cat data/x@v1:"
same "$offered" " a "
offers "mlx cat data/my\\ set@v1:"
has "$offered" " a file "
has "$offered" " sub folder/ "
lacks "$offered" "/b"
offers "mlx cat data/my\\ set@v1:sub\\ f"
same "$offered" " sub folder/ "
offers "mlx cat 'data/my set@v1:sub folder/"
same "$offered" " data/my set@v1:sub folder/b "  # inside quotes bash replaces the whole word
offers "mlx cat data/x@v1:a 'data/my s"
has "$offered" " data/my set@v1 "
offers "mlx show data/my"
has "$offered" ' data/my\ set@v1 '
offers 'mlx cat data/my\ set@v1:$'
same "$offered" ' $(touch evil) '
offers "mlx cat nowhere@v1:"
same "$offered" "  "
[ ! -e evil ] || fail "a name was run"
offers "mlx commit --mes"
same "$offered" " --message "
offers "mlx log --color a"
same "$offered" " auto always "
offers "mlx -C data che"
same "$offered" " checkout check "
offers "mlx add -n --c"
same "$offered" " --color "
offers "mlx help st"
has "$offered" " status "

mlx completion zsh >_mlx
mlx completion fish >mlx.fish
if command -v zsh >/dev/null; then zsh -n _mlx; fi
if command -v fish >/dev/null; then
  fish --no-execute mlx.fish
  expect 0 fish --no-config -c "source mlx.fish; complete -C 'mlx che'"
  has "$out" checkout
  expect 0 fish --no-config -c "source mlx.fish; complete -C 'mlx show data/x@'"
  has "$out" data/x@production
  expect 0 fish --no-config -c "source mlx.fish; complete -C 'mlx cat data/my\\ set@v1:sub'"
  has "$out" "data/my set@v1:sub folder/"
  expect 0 fish --no-config -c "source mlx.fish; complete -C 'mlx cat data/x@v1:'"
  same "$out" "data/x@v1:a"
fi

mkdir -p pages && mlx help --generate pages -q
for page in pages/man/*.1; do
  if command -v mandoc >/dev/null; then
    # Style and dates are ours; anything that mandoc would print wrongly is not.
    problems=$(mandoc -T lint -W warning "$page" | grep -vE 'missing date|empty block|TH' || true)
    same "$problems" ""
  elif command -v man >/dev/null; then
    same "$(LC_ALL=C.UTF-8 MANROFFSEQ= man --warnings -l -Tutf8 "$page" 2>&1 >/dev/null)" ""
  fi
done
