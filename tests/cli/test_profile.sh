# `mlx train --profile` and `--trace`: where the time goes, without a change to what is trained.
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
# shellcheck source=trained.sh
source "$here/trained.sh"
expect 0 mlx show clf --json
id=$(json "d['digest']") run=$(json "d['run']")
expect 0 mlx show "$run" --json
key=$(json "d['key']")

# Known already: nothing is run, and that is said.
expect 0 mlx train --profile
has "$out" "unchanged"
has "$err" "there is no profile"
lacks "$out" "GFLOP/s"

# Ten steps: two epochs of five batches. The first one is not counted.
expect 0 mlx train --force --profile --trace steps.json
has "$out" "of 9 steps"
has "$out" "conv2d_backward_weights"
has "$out" "of peak"
has "$out" "in kernels"
has "$err" "steps.json"
python3 - <<'PY' || fail "steps.json is no trace: $(head -c 300 steps.json)"
import json
events = json.load(open("steps.json"))
spans = [e for e in events if e["ph"] == "X"]
steps = [e for e in spans if e["cat"] == "step"]
assert len(steps) == 9 and steps[0]["name"] == "step 2", steps[:1]
inside = [e for e in spans if e["cat"] == "conv2d"]
assert len(inside) == 9, len(inside)
for e, s in zip(inside, steps):
    assert s["ts"] <= e["ts"] and e["ts"] + e["dur"] <= s["ts"] + s["dur"] + 1, (e, s)
assert all({"name", "cat", "ts", "dur", "pid", "tid"} <= e.keys() for e in spans)
PY
expect 0 mlx train --force --profile --json
same "$(json "d['digest']")" "$id"
same "$(json "d['profile']['steps']")" 9
lacks "$err" warning
same "$(json "abs(sum(n['seconds'] for n in d['profile']['nodes']) - d['profile']['kernel_seconds']) < 1e-9")" True
same "$(json "0 < d['profile']['kernel_seconds'] <= d['profile']['seconds']")" True
same "$(json "d['profile']['peak']['flops_per_second'] > 0 and d['profile']['peak']['bytes_per_second'] > 0")" True
run=$(json "d['run']")
expect 0 mlx show "run:$run" --json
same "$(json "d['key']")" "$key"

# A trace that could not be written is refused before anything is trained.
error 3 "no/such/folder" mlx train --force --trace no/such/folder/steps.json
