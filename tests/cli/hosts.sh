# shellcheck shell=bash
# Hosts for one test: network namespaces with their own names, addresses and sshd, joined by a bridge. Nothing of it is
# seen outside, and it ends with the test's processes. Sourced first of all: it runs the test again in a namespace of
# its own, or skips it where that is not permitted. Afterwards `start_hosts NAME...` makes them, with addresses of IPv4, or
# of IPv6 if `hosts_family` is 6 and this machine has it.
command -v sshd >/dev/null || PATH=$PATH:/usr/sbin:/sbin
for program in sshd ssh ssh-keygen ip nsenter unshare mpirun; do
  command -v $program >/dev/null || { echo "skipped: no $program here" >&2; exit 77; }
done
if [ -z "${MLX_TEST_IN_NAMESPACE:-}" ]; then
  unshare --net --uts --mount true 2>/dev/null || { echo "skipped: no network namespaces here" >&2; exit 77; }
  MLX_TEST_IN_NAMESPACE=1 exec unshare --net --uts --mount --kill-child --fork bash "$0" "$@"
fi
# shellcheck source=sshd_settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/sshd_settings.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
declare -A host_process
host_pids=""
hosts_end() {
  local name
  for name in "${!host_process[@]}"; do
    # Whatever still runs there.
    for process in /proc/[0-9]*; do
      [ "$(readlink "$process/ns/net" 2>/dev/null)" = "$(readlink "/proc/${host_process[$name]}/ns/net")" ] || continue
      [ "${process#/proc/}" = "${host_process[$name]}" ] || kill -9 "${process#/proc/}" 2>/dev/null || true
    done
  done
  # shellcheck disable=SC2086
  kill -9 $host_pids 2>/dev/null || true
}
trap 'hosts_end; cleanup' EXIT

# on NAME COMMAND...: there.
on() { local name=$1; shift; nsenter -t "${host_process[$name]}" --net --uts "$@"; }

# address_of DEVICE NUMBER [on NAME]: gives it the address. One of IPv6 may be used at once, without asking the others.
address_of() {
  local nodad=nodad
  [ "$length" = 64 ] || nodad=
  # shellcheck disable=SC2086
  "${@:3}" ip addr add "$prefix$2/$length" dev "$1" $nodad
}

start_hosts() {
  local number=1 name prefix=10.77.0. length=24
  if [ "${hosts_family:-4}" = 6 ] && [ -s /proc/net/if_inet6 ]; then prefix=fd77:: length=64; fi
  ssh_folder=$work/ssh
  mkdir -p "$ssh_folder"
  for key in host_key user_key; do ssh-keygen -q -t ed25519 -N '' -C $key -f "$ssh_folder/$key"; done
  echo "hosts $(cut -d' ' -f1,2 "$ssh_folder/host_key.pub")" >"$ssh_folder/known_hosts"
  mkdir -p /run/sshd
  ip link set lo up
  ip link add bridge0 type bridge
  address_of bridge0 1
  ip link set bridge0 up
  hostname launcher
  for name in "$@"; do
    number=$((number + 1))
    unshare --net --uts sleep 100000 &
    host_process[$name]=$!
    host_pids="$host_pids $!"
    disown
    until [ "$(readlink "/proc/${host_process[$name]}/ns/net")" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.01; done
    ip link add "to_$name" type veth peer name eth0 netns "${host_process[$name]}"
    ip link set "to_$name" master bridge0 up
    on "$name" hostname "$name"
    on "$name" ip link set lo up
    address_of eth0 "$number" on "$name"
    on "$name" ip link set eth0 up
    mkdir -p "$work/home_$name/bin"
    ln -s "$mlx_binary" "$work/home_$name/bin/mlx"
    sshd_settings "$prefix$number" "$ssh_folder/user_key.pub" \
      "PATH=$work/home_$name/bin:/usr/bin:/bin HOME=$work/home_$name XDG_CACHE_HOME=$work/home_$name/cache" >"$ssh_folder/sshd_$name"
    printf '%s\n' "Host $name" "HostName $prefix$number" "HostKeyAlias hosts" "IdentityFile $ssh_folder/user_key" "IdentitiesOnly yes" \
      "UserKnownHostsFile $ssh_folder/known_hosts" "StrictHostKeyChecking yes" "BatchMode yes" "ConnectTimeout 5" >>"$ssh_folder/ssh_config"
    on "$name" "$(command -v sshd)" -D -e -f "$ssh_folder/sshd_$name" 2>"$ssh_folder/sshd_$name.log" &
    host_pids="$host_pids $!"
    disown
  done
  export MLX_SSH_COMMAND="ssh -F $ssh_folder/ssh_config"
  unset MLX_REMOTE_MLX
  for name in "$@"; do
    for _ in {1..100}; do grep -q "Server listening" "$ssh_folder/sshd_$name.log" && break; sleep 0.05; done
    $MLX_SSH_COMMAND "$name" true 2>"$ssh_folder/err" || { echo "skipped: no login by ssh here: $(cat "$ssh_folder/err")" >&2; exit 77; }
  done
}
# The mlx and orted processes of a host.
runs_on() { for process in $(pgrep -x 'mlx|orted' || true); do [ "$(readlink "/proc/$process/ns/net" 2>/dev/null)" != "$(readlink "/proc/${host_process[$1]}/ns/net")" ] || echo "$process"; done; }
none_left() {
  local name
  for name in "${!host_process[@]}"; do
    for _ in {1..350}; do [ -n "$(runs_on "$name")" ] || break; sleep 0.1; done
    [ -z "$(runs_on "$name")" ] || fail "still running on $name: $(ps -o pid,args -p "$(runs_on "$name" | paste -sd,)")"
  done
}
