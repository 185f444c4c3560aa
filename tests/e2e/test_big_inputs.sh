# Sizes that break tools: a file of exactly 4 GiB with holes, memory while a large file goes in, many files in one
# folder.
set -euo pipefail
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/../cli/lib.sh"

# peak COMMAND...: its peak memory in MiB is in $peak.
peak() {
  peak=$(python3 -c '
import os, subprocess, sys
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(child.pid, 0)
print(usage.ru_maxrss // 1024 if status == 0 else 1 << 30)' "$@")
}

mlx -q init >/dev/null

# A file of exactly 4 GiB: data at its begin, in its middle and at its very end, holes between.
mkdir sparse
truncate -s 4G sparse/file
head -c 300000 /dev/urandom >piece
for at in 0 2147483000 4294667296; do
  dd if=piece of=sparse/file bs=1M seek="$at" oflag=seek_bytes conv=notrunc status=none
done
same "$(stat -c %s sparse/file)" 4294967296
peak "$mlx_binary" -q add sparse/file
[ "$peak" -lt 300 ] || fail "adding 4 GiB took $peak MiB of memory"
[ "$(du -sm .mlx | cut -f1)" -lt 20 ] || fail "the holes are stored: $(du -sm .mlx)"
mlx -q commit -m sparse >/dev/null
mlx cat sparse/file@v1:file | cmp - sparse/file || fail "4 GiB came back otherwise"
expect 0 mlx status
has "$out" "clean"
printf x | dd of=sparse/file bs=1 seek=4294967295 conv=notrunc status=none
expect 0 mlx status
has "$out" "modified"
expect 0 mlx add sparse/file
expect 0 mlx fsck
rm -rf sparse

# What nothing compresses, in one piece of 512 MiB.
python3 -c '
import os
for i in range(64): os.write(1, os.urandom(8 << 20))' >noise
peak "$mlx_binary" -q add noise
[ "$peak" -lt 300 ] || fail "adding 512 MiB took $peak MiB of memory"
rm noise

# 20,000 files in one folder.
python3 -c '
import os
os.mkdir("many")
for i in range(20000): open(f"many/{i}", "w").write(str(i))'
expect 0 mlx add many
has "$out" "20,000 files"
expect 0 mlx add many
has "$out" "unchanged"
sleep 0.05
expect 0 mlx status --json
same "$(json '[a["status"] for a in d["artifacts"] if a["artifact"] == "many"][0]')" clean
echo other >many/12345
rm many/777
expect 0 mlx status --json
same "$(json '[[e["path"] for e in a[k]] for a in d["artifacts"] if a["artifact"] == "many" for k in ("modified", "deleted", "new")]')" \
  "[['12345'], ['777'], []]"
expect 0 mlx add many
mlx -q commit -m many >/dev/null
expect 0 mlx checkout many@v1 --to elsewhere
diff -r many elsewhere || fail "20,000 files came back otherwise"
