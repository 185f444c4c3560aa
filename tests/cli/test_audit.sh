# shellcheck shell=bash
# The audit log says who did what and when; tampering is found, also if it was done with sqlite3.
. "$(dirname "$0")/lib.sh"
mlx init -q a && cd a && mlx remote add -q origin ../remote
mkdir -p data/x && echo one >data/x/f && mlx add -q data/x && mlx commit -q -m "the first"
echo two >data/x/f && mlx add -q data/x && mlx commit -q -m $'second\nline'
mlx tag -q paper data/x@v1 && mlx promote -q data/x@v2 production && mlx promote -q data/x@v1 production && mlx undo -q

expect 0 mlx audit log
same "$(wc -l <<<"$out")" 6
has "$(head -1 <<<"$out")" "this clone        took back"
has "$out" "made data/x@v1"
has "$out" ": the first"
has "$out" "tagged data/x"
has "$out" "(taken back)"
lacks "$out" "line"
expect 0 mlx audit log --json --kind alias.move
same "$(json 'd["schema"], [o["undone"] for o in d["operations"]]')" "('mlx.audit.log/1', [True, False])"
actor=$(json 'd["operations"][0]["actor"]')
expect 0 mlx audit log --jsonl --max-count 2
same "$(python3 -c 'import json,sys; print([json.loads(l)["kind"] for l in sys.stdin])' <<<"$out")" "['operation.undo', 'alias.move']"
expect 0 mlx audit log data/x@v1 --kind tag
same "$(wc -l <<<"$out")" 1
expect 0 mlx audit log --actor "${actor:0:6}" --kind version
same "$(wc -l <<<"$out")" 2
expect 0 mlx audit log --actor 0000000000000000
same "$out" "no operations"
expect 0 mlx audit log --since "1 hour" --until 2099-01-01
same "$(wc -l <<<"$out")" 6
expect 0 mlx audit log --since 2099-01-01
same "$out" "no operations"
# bug: a kind that there is not was answered with nothing and exit 0.
error 2 "did you mean 'alias.move'" mlx audit log --kind alias.moves
error 2 "expected one of" mlx audit log --kind nonsense
expect 0 mlx audit log --kind run
same "$out" "no operations"
error 2 "is not a time" mlx audit log --since yesterdayish
error 3 "no artifact is called" mlx audit log data/y
error 2 "subcommand is missing" mlx audit

expect 0 mlx audit verify
has "$out" "6 operations"
head=$(sed -n 's/^head //p' <<<"$out")
expect 0 mlx audit verify --head "${head:0:16}"
expect 0 mlx audit verify --json --head "sha256:$head"
same "$(json 'd["schema"], d["ok"], d["problems"]')" "('mlx.audit.verify/1', True, [])"
error 2 "expected the hex digits" mlx audit verify --head latest
mlx push -q
expect 0 mlx audit verify --remote origin

# tampered STATEMENT TEXT: a copy of the repository with its database changed by another program.
tampered() {
  rm -rf ../t && cp -a ../a ../t
  python3 -c 'import sqlite3,sys; db = sqlite3.connect("../t/.mlx/meta.db"); db.executescript(sys.argv[1]); db.commit(); db.close()' "$1"
  expect 1 mlx -C ../t audit verify
  has "$out" "$2"
  expect 1 mlx -C ../t audit verify --json
  same "$(json 'd["ok"], len(d["problems"]) > 0')" "(False, True)"
}
tampered "UPDATE version_makers SET message = 'other words' WHERE message = 'the first'" "message='other words'"
tampered "UPDATE operations SET actor = '0123456789abcdef' WHERE seq = 2" "operations: row 2"
tampered "DELETE FROM operations WHERE seq = 3" "was removed"
tampered "UPDATE operations SET seq = 100 - seq" "were reordered"
tampered "DELETE FROM alias_moves" "alias_moves: seq="
tampered "DELETE FROM undone" "undone: operation="

# If the end of the history is cut off everywhere on this machine, a head that was kept elsewhere shows it.
rm -rf ../t && cp -a ../a ../t && cp ../a/.mlx/journal ../journal
mlx tag -q late data/x@v2 && mlx push -q
expect 0 mlx audit verify
later=$(sed -n 's/^head //p' <<<"$out")
expect 0 mlx -C ../t audit verify
expect 1 mlx -C ../t audit verify --head "$later"
has "$out" "its end was cut off"
expect 1 mlx -C ../t audit verify --remote origin
has "$out" "this clone made it and 'origin' has it"
# A clone that has only not fetched yet has lost nothing.
mkdir ../b && cp -r mlx.toml data ../b && rm -r ../b/data/x && mlx -C ../b pull -q
mlx promote -q data/x@v1 staging && mlx push -q
expect 0 mlx -C ../b audit verify --remote origin
has "$out" "1 operation not fetched yet"
cmp ../journal ../t/.mlx/journal

# Names: only of those who give one, and only until it is taken away.
cd ../a
expect 0 mlx audit log --json --max-count 1
same "$(json 'd["operations"][0]["name"]')" None
mlx config -q user.name "Ann Author" && mlx config -q user.email ann@example.com && mlx push -q && mlx push -q
expect 0 mlx audit log --json
same "$(json '[(o["name"], o["email"], o["host"] != "") for o in d["operations"]][0]')" "('Ann Author', 'ann@example.com', True)"
same "$(json 'sum(o["kind"] == "actor.describe" for o in d["operations"])')" 1
grep -q "Ann" .mlx/journal && fail "a name stands in an operation"
error 5 "never undone" mlx undo "$(json 'd["operations"][0]["id"]')"
expect 0 mlx undo -n
has "$out" "staging"
mlx -C ../b fetch -q
expect 0 mlx -C ../b audit log
has "$out" "Ann Author"
expect 0 mlx audit forget -n me
has "$out" "would be forgotten"
expect 0 mlx audit forget "$actor"
expect 0 mlx audit forget me
has "$out" unchanged
mlx config -q --unset user.name && mlx push -q && mlx -C ../b fetch -q
expect 0 mlx -C ../b audit log
lacks "$out" "Ann"
expect 0 mlx audit verify
expect 0 mlx -C ../b audit verify

# bug: all operations stood in memory at once, decoded, several times over.
! grep -q __asan_init "$mlx_binary" || exit 0  # its memory is another matter
python3 - "$here/../bench" "$mlx_binary" "$work" <<'PY'
import os, shutil, sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import history
binary, work = sys.argv[2:]
os.environ["MLX_THREADS"] = "2"
peaks = []
for count in 8, 96:  # 2 and 24 messages of 1 MB
    clone = os.path.join(work, f"long{count}")
    os.makedirs(clone)
    history.run(binary, "init", cwd=clone)
    history.write_journal(os.path.join(clone, ".mlx", "journal"), history.operations(count, history.Key(b"\x07" * 32), 250_000))
    peaks.append({name: history.run(binary, *words, cwd=clone)[0] for name, words in history.COMMANDS.items()})
    shutil.rmtree(clone)
for name in history.COMMANDS:
    peak = peaks[1][name]
    assert peak < peaks[0][name] + 12, f"{name}: {peaks[0][name]:.0f} MiB with 2 MB of operations, {peak:.0f} MiB with 24 MB"

# bug: a push and a fetch took several kilobytes of memory for each operation.
few, many = (history.travel(binary, os.path.join(work, f"travel{count}"), count) for count in (500, 8000))
for name, (peak, *_) in many.items():
    assert peak < few[name][0] + 18, f"{name}: {few[name][0]:.0f} MiB with 500 operations, {peak:.0f} MiB with 8000"
PY
