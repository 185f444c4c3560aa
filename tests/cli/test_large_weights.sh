# The weights of a large model are mapped from the cache of whole files: read once, the same answers, and made anew if
# somebody changed or removed the file. Never from an encrypted repository, and not needed where nothing can be written.
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"

train() {
  mkdir -p data/t
  { echo "a,b,y"; for i in $(seq 64); do echo "$((i % 7)),$((i % 5)),$((i % 2))"; done; } >data/t/train.csv
  printf '[data]\ndataset = "data/t"\ntarget = "y"\n[model]\nname = "m"\nfamily = "mlp"\nhidden = [4096, 4096]\n[train]\nepochs = 1\nbatch = 64\n' >c.toml
  mlx add -q data/t >/dev/null
  mlx train -q -c c.toml >/dev/null 2>&1 || fail "training failed"
}
answers() { printf 'a,b\n1,2\n3,4\n' | mlx predict m - --out - 2>/dev/null; }
# The cached file has the digest that it is named by.
whole() { same "$(sha256sum <"$(cached)" | cut -c3-64)" "$(basename "$(cached)")"; }
cached() { find .mlx/cache/files -type f -size +60M 2>/dev/null; }

mkdir plain secret
cd plain
mlx init >/dev/null 2>&1
train
same "$(cached)" ""
first=$(answers)
has "$first" "y"
file=$(cached)
[ -n "$file" ] || fail "nothing in the cache"
node=$(stat -c %i "$file")
same "$(answers)" "$first"
same "$(stat -c %i "$(cached)")" "$node"

# Changed: its time says so, and it is made anew. A file of an earlier boot is read before it is used.
chmod u+w "$file" && flip "$file" 50000000
same "$(answers)" "$first"
whole
boot=$(dirname "$(dirname "$(cached)")")
earlier=$(cached)
mv "$boot" "$(dirname "$boot")/0123456789abcdef"
earlier=${earlier/$(basename "$boot")/0123456789abcdef}
chmod u+w "$earlier" && flip "$earlier" 50000000
same "$(answers)" "$first"
whole
# bug: a file that another user had made was read, though he can change it and set its time back.
if [ "$(id -u)" = 0 ]; then
  file=$(cached)
  cp -p "$file" kept
  chown 12345 "$file"
  dd if=/dev/zero of="$file" bs=1M seek=8 count=40 conv=notrunc status=none
  touch -r kept "$file"
  same "$(answers)" "$first"
  rm kept
fi
mlx gc --yes >/dev/null
same "$(cached)" ""
same "$(answers)" "$first"

# bug: gc removed what a link in the cache led to, and stopped at a stray file; a named pipe was waited for.
mkdir outside && echo precious >outside/document
ln -s "$PWD/outside" .mlx/cache/files/0123456789abcdef
ln -s "$PWD/outside" "$boot/zz"
touch .mlx/cache/files/stray
expect 0 mlx gc --yes
same "$(cat outside/document)" precious
same "$(answers)" "$first"
file=$(cached)
rm "$file" && mkfifo "$file"
same "$(answers)" "$first"
whole
rm -rf "$boot" && ln -s "$PWD/outside" "$boot"
same "$(answers)" "$first"
same "$(ls outside)" document
rm "$boot"

# bug: in the clone of another user, where nothing is written, there were folders of the cache afterwards.
rm -rf .mlx/cache
if [ "$(id -u)" = 0 ]; then
  chown -R 65534 .mlx
  same "$(answers)" "$first"
  [ ! -e .mlx/cache/files ] || fail "something was written to another user's folder: $(find .mlx/cache)"
  chown -R 0 .mlx
fi

# A file in the place of the cache, or a full disk: the weights are read from the store.
mkdir -p .mlx/cache && rm -rf .mlx/cache/files && echo no >.mlx/cache/files
same "$(answers)" "$first"
rm .mlx/cache/files

cd ../secret
echo "correct horse" >"$work/pass" && chmod 600 "$work/pass"
export MLX_PASSPHRASE_FILE=$work/pass
expect 0 mlx init --encrypt --passphrase-file "$work/pass"
train
same "$(answers)" "$first"
same "$(cached)" ""
