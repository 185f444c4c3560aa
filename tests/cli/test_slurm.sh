# Trainings under a real Slurm: ranks that srun or mpirun starts on two nodes make the model of one process, and a job that
# has to stop continues from its checkpoint.
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
# shellcheck source=slurm.sh
source "$here/slurm.sh"

# Names that a careless script would break.
mkdir "it's \"a\" \$HOME #1" && cd "it's \"a\" \$HOME #1"
bars 8 60 20 10 4
mlx init >/dev/null 2>&1
mlx add data/bars >/dev/null 2>&1
mlx commit -m data >/dev/null
printf '%s\n' '[data]' 'dataset = "data/bars"' '[model]' 'name = "net"' 'family = "mlp"' 'hidden = [19]' '[train]' 'epochs = 2' 'batch = 20' 'accumulate = 4' >"my net.toml"
cp -r . "$work/alone"
# alone OPTION...: the digest of the model that one process trains, in a repository that knows nothing of the jobs.
alone() { (cd "$work/alone" && mlx train -c "my net.toml" "$@" --json | python3 -c 'import json,sys; print(json.load(sys.stdin)["digest"])'); }
digest() { mlx show net --json | python3 -c 'import json,sys; print(json.load(sys.stdin)["digest"])'; }
# write_job FILE OPTION...
write_job() { expect 0 mlx export slurm -c "my net.toml" --sbatch nodes=2 --sbatch time=5:00 --out "$@"; }

# As it was exported, srun here; and mpirun, where Slurm lacks PMIx.
for launcher in auto mpirun; do
  write_job "job $launcher.sh" --ranks 4 --launcher $launcher --set train.seed=${#launcher} --name "the \"$launcher\" \\job" --sbatch "output=$work/$launcher.log"
  job=$(sbatch --parsable "job $launcher.sh")
  job_ends "$job" COMPLETED
  has "$(scontrol show job "$job")" "JobName=the \"$launcher\" \\job"
  same "$launcher: $(digest)" "$launcher: $(alone --set train.seed=${#launcher})"
  expect 0 mlx train -c "my net.toml" --set train.seed=${#launcher} --json
  same "$(json "(d['unchanged'], d['summary']['ranks'])")" "(True, 4)"
done
has "$(<"job auto.sh")" 'srun --mpi=pmix'

# Without PMIx the processes of srun would each train alone.
for mpi in none pmi2; do
  expect 2 srun --mpi=$mpi -n2 "$mlx_binary" train -c "my net.toml" --set train.seed=9
  has "$err" 'these processes do not know of each other'
  has "$err" 'srun --mpi=pmix'
done

# The signal that Slurm sends before the time limit: a checkpoint, and the same job again, which continues.
long=(--set train.epochs=600 --set train.seed=2)
write_job long.sh --ranks 2 --notice 90 "${long[@]}" --sbatch "output=$work/long.log"
has "$(<long.sh)" '#SBATCH --signal="B:USR1@90"'
job=$(sbatch --parsable long.sh)
running() { mlx log --runs --json | python3 -c 'import json,sys; sys.exit(json.load(sys.stdin)["runs"][0]["status"] != "running")'; }
for _ in $(seq 100); do ! running || break; sleep 0.05; done
scancel --batch --signal=USR1 "$job"
job_ends "$job" COMPLETED
has "$(scontrol show job "$job")" 'Restarts=1'
has "$(<"$work/long.log")" 'a checkpoint is kept'
has "$(<"$work/long.log")" 'continuing from it'
same "$(digest)" "$(alone "${long[@]}")"

# A job that fails says so, and is not queued again.
write_job failing.sh --ranks 2 --set train.seed=8 --sbatch "output=$work/failing.log"
sed -i 's/epochs = 2/epochs = "two"/' "my net.toml"
job=$(sbatch --parsable failing.sh)
job_ends "$job" FAILED
has "$(scontrol show job "$job")" 'Restarts=0'
has "$(<"$work/failing.log")" '[train] epochs: expected'

cd "$work"
stop_slurm || fail "Slurm left: $(ps -o pid,args -p "$(of_slurm | paste -sd,)")"
