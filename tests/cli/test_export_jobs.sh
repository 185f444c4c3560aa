# Exported jobs as files: what they say, by the schema of MPIJob and by bash; what is refused before it waits in a queue.
# That Slurm runs the script: test_slurm.sh.
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
check=$here/check_mpijob.py
printf '%s\n' '[data]' 'dataset = "data/bars"' '[model]' 'name = "Small_Net"' 'family = "mlp"' 'hidden = [19]' '[train]' 'epochs = 2' 'batch = 20' >"my net.toml"
slurm() { mlx export slurm -c "my net.toml" "$@"; }
mpijob() { mlx export mpijob -c "my net.toml" --image example/mlx:1 "$@"; }

mlx init >/dev/null 2>&1
# Options reach the script, quoted.
expect 0 slurm --ranks 4 --cpus 3 --memory 3GiB --set 'data.train=it'\''s $(touch here) `#`' --program '/opt/m l/mlx' --sbatch partition='a "b" \c' --sbatch exclusive --out job.sh
same "$out" 'job.sh  4 ranks'
bash -n job.sh
for line in '#SBATCH --ntasks="4"' '#SBATCH --cpus-per-task="3"' '#SBATCH --mem-per-cpu="1127M"' '#SBATCH --exclusive' '#SBATCH --partition="a \"b\" \\c"' '#SBATCH --requeue' \
  'export MLX_THREADS=3 NO_COLOR=1'; do
  grep -qxF -- "$line" job.sh || fail "no line $line in $(<job.sh)"
done
command=$(sed -n 's/^"${launcher\[@\]}" \(.*\) &$/\1/p' job.sh)
eval "words=($command)"
same "$(printf '%s|' "${words[@]}")" '/opt/m l/mlx|train|-c|my net.toml|--set|data.train=it'\''s $(touch here) `#`|--memory|3GiB|'
[ ! -e here ] || fail "a value was run"
same "$(slurm --ranks 4)" "$(slurm --ranks 4 -o -)"
lacks "$(slurm --ranks 2 --launcher mpirun)" srun
lacks "$(slurm --ranks 2 --launcher srun)" mpirun
expect 0 slurm --ranks 2 --json
same "$(json "(d['schema'], d['to'], d['ranks'], d['text'].startswith('#!/bin/bash'))")" "('mlx.export/1', 'slurm', 2, True)"

# What would fail in the queue, or means nothing.
error 2 "--ranks: expected an integer, got 'many'" mlx export slurm -c "my net.toml" --ranks many
error 2 '--ranks' mlx export slurm -c "my net.toml"
error 2 '--ranks 0: expected 1 to 4096' slurm --ranks 0
error 2 '--cpus 0: expected 1 to 4096' slurm --ranks 2 --cpus 0
error 2 '--notice 70000: expected 1 to 65535' slurm --ranks 2 --notice 70000
error 2 '7 micro-batches of equal size do not make a batch of 20' slurm --ranks 7
error 2 'accumulate = 4 micro-batches cannot be shared among 3 ranks' slurm --ranks 3 --set train.accumulate=4
error 3 'none.toml' mlx export slurm -c none.toml --ranks 2
error 2 'the option ntasks of sbatch is given twice, or by an option of mlx' slurm --ranks 2 --sbatch ntasks=9
error 2 "'--time' is no option of sbatch" slurm --ranks 2 --sbatch --time=9
error 2 "--time: a line of sbatch's options cannot hold" slurm --ranks 2 --sbatch time=$'1\n#SBATCH --exclusive'
error 2 "--job-name: a line of sbatch's options cannot hold" slurm --ranks 2 --name $'a\nb'
error 3 'nowhere/job.sh' slurm --ranks 2 -o nowhere/job.sh

# The manifest, whose names Kubernetes takes.
name='it'\''s "$(HOME)" é: #'
expect 0 mpijob --ranks 4 --slots 2 --cpus 3 --memory 1GiB --claim repo --mount "/data/$name" --set "data.train=$name" --out job.yaml
python3 "$check" <job.yaml >job.json || { [ $? = 77 ] && exit 77; fail "not an MPIJob"; }
python3 - "$name" <<'PY' || fail "another manifest: $(<job.yaml)"
import json, sys
name = sys.argv[1]
job = json.load(open("job.json"))
spec = job["spec"]
launcher, worker = (spec["mpiReplicaSpecs"][kind] for kind in ("Launcher", "Worker"))
first, other = (kind["template"]["spec"]["containers"][0] for kind in (launcher, worker))
assert job["metadata"] == {"name": "small-net"}
assert (spec["slotsPerWorker"], worker["replicas"], launcher["replicas"]) == (2, 2, 1)
args = first["args"]
assert first["command"] == ["mpirun"] and args[:2] == ["--np", "4"]
escaped = name.replace("$", "$$")  # Kubernetes would put the variable HOME there
assert args[args.index("mlx"):] == ["mlx", "train", "-c", "my net.toml", "--set", "data.train=" + escaped, "--memory", "1GiB"], args
assert args[args.index("--wdir") + 1] == "/data/" + escaped and "MLX_THREADS=3" in args
assert "command" not in other and other["image"] == first["image"] == "example/mlx:1"
assert other["resources"]["limits"] == {"cpu": "6", "memory": str(2 * 2**30 * 11 // 10)}
for pod in launcher, worker:
    pod = pod["template"]["spec"]
    assert pod["volumes"] == [{"name": "repository", "persistentVolumeClaim": {"claimName": "repo"}}]
    assert pod["containers"][0]["volumeMounts"] == [{"name": "repository", "mountPath": "/data/" + name}]
PY
mpijob --ranks 2 --namespace team --name x | python3 "$check" >job.json || fail "not an MPIJob"
same "$(python3 -c 'import json; print(json.load(open("job.json"))["metadata"])')" "{'name': 'x', 'namespace': 'team'}"
# The checker refuses what is no MPIJob.
for change in 's/slotsPerWorker: 2/slotsPerWorker: "2"/' 's/"OpenMPI"/"PVM"/' 's/cpu: "6"/cpu: "six"/' 's/mountPath/mountpath/' 's/replicas: 2/replicas: 4000000000/' 's/mpiReplicaSpecs/replicaSpecs/'; do
  sed "$change" job.yaml | cmp -s - job.yaml && fail "$change changes nothing"
  if sed "$change" job.yaml | python3 "$check" >/dev/null 2>&1; then fail "the checker takes $change"; fi
done
error 2 "--name '9x': Kubernetes does not take this name" mpijob --ranks 2 --name 9x
error 2 '--slots 3: 4 ranks do not fill pods of so many' mpijob --ranks 4 --slots 3
error 2 'a pod has other paths than this machine' mlx export mpijob -c "$work/my net.toml" --image x --ranks 2
error 2 'a manifest holds only UTF-8' mpijob --ranks 2 --claim $'\xff'
error 2 '--image' mlx export mpijob -c "my net.toml" --ranks 2
