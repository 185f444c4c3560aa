# shellcheck shell=bash
# A real Slurm for this test alone: slurmctld, two nodes that are two slurmd of this machine, and munged, all with their
# own ports, keys and folders. Sourced after lib.sh. Ended when the test ends, with every job.
PATH=$PATH:/usr/sbin
for program in munged slurmctld slurmd sbatch srun mpirun python3; do
  command -v $program >/dev/null || { echo "skipped: no $program here (packages slurmctld slurmd slurm-client munge)" >&2; exit 77; }
done
[ -f "$(dirname "$mlx_binary")/lib/mlx/mlx_mpi.so" ] || { echo "skipped: mlx was built without Open MPI"; exit 77; }

slurm=$work/slurm
export SLURM_CONF=$slurm/slurm.conf
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export TMPDIR=$slurm/tmp  # for MPI's files, which may outlive a rank
export OMPI_MCA_btl=tcp,self  # the two nodes would take the same names for their shared memory
# Everything that Slurm started, and itself.
of_slurm() {
  local process
  for process in $(pgrep -f 'slurm|munged|mpirun|orted|mlx' || true); do
    if [ "$process" != $$ ] && grep -qxzF "SLURM_CONF=$SLURM_CONF" "/proc/$process/environ" 2>/dev/null; then echo "$process"; fi
  done
}
# In order at first: jobs, nodes, controller, munged.
stop_slurm() {
  local daemon
  if [ -f "$slurm/started" ]; then
    rm "$slurm/started"  # without a controller these commands wait for it
    scancel --user="$(id -un)" 2>/dev/null || true
    for _ in $(seq 50); do [ -n "$(squeue -h 2>/dev/null)" ] || break; sleep 0.1; done
  fi
  for daemon in $daemons; do kill "$daemon" 2>/dev/null || true; done
  for daemon in $daemons; do wait "$daemon" 2>/dev/null || true; done
  for _ in $(seq 50); do [ -n "$(of_slurm)" ] || return 0; sleep 0.1; done
  # shellcheck disable=SC2046
  kill -9 $(of_slurm) 2>/dev/null || true
  return 1
}
daemons=""
trap 'stop_slurm || true; cleanup' EXIT

chmod 711 "$work"  # munged wants its socket to be reachable by all users
mkdir -p "$slurm"/{munge,state,log} "$slurm"/{spool,tmp}/{a,b}
chmod 711 "$slurm" "$slurm/munge"
head -c 128 /dev/urandom >"$slurm/munge/key"
chmod 400 "$slurm/munge/key"
read -r ctld_port a_port b_port <<<"$(python3 -c '
import socket
sockets = [socket.socket() for _ in range(3)]
for s in sockets: s.bind(("127.0.0.1", 0))
print(*(s.getsockname()[1] for s in sockets))')"
# KillWait: how long ranks are left that wait for one which failed. TmpFS: PMIx of each node has a folder of its own. cred_expire: how long a job that was queued again has to wait.
cat >"$SLURM_CONF" <<TEXT
ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=$ctld_port
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/munge
AuthInfo=socket=$slurm/munge/socket,cred_expire=5
CryptoType=crypto/munge
MpiDefault=none
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
SlurmdParameters=config_overrides
KillWait=1
ReturnToService=2
MailProg=/bin/true
SlurmctldPidFile=$slurm/slurmctld.pid
SlurmdPidFile=$slurm/%n.pid
SlurmdSpoolDir=$slurm/spool/%n
TmpFS=$slurm/tmp/%n
StateSaveLocation=$slurm/state
SlurmctldLogFile=$slurm/log/slurmctld
SlurmdLogFile=$slurm/log/%n
NodeName=a NodeHostname=localhost NodeAddr=127.0.0.1 Port=$a_port CPUs=2
NodeName=b NodeHostname=localhost NodeAddr=127.0.0.1 Port=$b_port CPUs=2
PartitionName=all Nodes=a,b Default=YES MaxTime=INFINITE State=UP
TEXT
# daemon NAME COMMAND...
daemon() {
  "${@:2}" >"$slurm/log/$1.out" 2>&1 &
  daemons="$! $daemons"
}
no_slurm() { echo "skipped: $1 does not start here: $(tail -qn1 "$slurm/log"/*.out | tail -1)" >&2; exit 77; }
daemon munged munged --foreground --socket="$slurm/munge/socket" --key-file="$slurm/munge/key" --log-file="$slurm/munge/log" \
  --pid-file="$slurm/munge/pid" --seed-file="$slurm/munge/seed" --origin=127.0.0.1
for _ in $(seq 100); do [ ! -S "$slurm/munge/socket" ] || break; sleep 0.05; done
[ -S "$slurm/munge/socket" ] || no_slurm munged
daemon slurmctld slurmctld -D -f "$SLURM_CONF"
for node in a b; do daemon $node slurmd -D -N $node -f "$SLURM_CONF"; done
for _ in $(seq 150); do [ "$(sinfo -h -N -o %t 2>/dev/null | paste -sd,)" != idle,idle ] || break; sleep 0.1; done
[ "$(sinfo -h -N -o %t 2>/dev/null | paste -sd,)" = idle,idle ] || no_slurm Slurm
touch "$slurm/started"

# state JOB: RUNNING, PENDING, COMPLETED …
state() { scontrol show job "$1" | sed -n 's/.*JobState=\([A-Z_]*\).*/\1/p'; }
# job_ends JOB STATE: waits for its end.
job_ends() {
  local now=""
  for _ in $(seq 400); do
    now=$(state "$1")
    case $now in COMPLETED | FAILED | CANCELLED | TIMEOUT | NODE_FAIL) break ;; esac
    sleep 0.2
  done
  [ "$now" = "$2" ] || fail "job $1 is $now, expected $2: $(tail -n 30 "$work"/*.log 2>/dev/null)"
}
