# The sessions that README.md and mlx-tutorial(7) show are what their commands print.
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
[ -d /usr/share/datasets/fashion-mnist ] || { echo "skipped: dataset-fashion-mnist is not installed"; exit 77; }

# A page that says something else than its commands print fails, and --write mends it.
printf 'Text.\n\n```\n$ echo one; echo 0123456789abcdef; echo "took 1.5 s"\none\nfedcba9876543210\ntook 0.2 s\n$ seq 9\n1\n…\n```\n' >right.md
sed 's/^one$/two/' right.md >wrong.md
expect 0 python3 "$here/sessions.py" "$mlx_binary" right.md
expect 1 python3 "$here/sessions.py" "$mlx_binary" wrong.md
has "$out" 'wrong.md:4: $ echo one'
expect 0 python3 "$here/sessions.py" "$mlx_binary" wrong.md --write
expect 0 python3 "$here/sessions.py" "$mlx_binary" wrong.md
same "$(sed -n 8,10p wrong.md)" $'$ seq 9\n1\n…'

for page in README.md man/mlx-tutorial.7; do
  expect 0 python3 "$here/sessions.py" "$mlx_binary" "$here/../../$page"
done
