# shellcheck shell=bash
# A real sshd for this test alone: on a free loopback port, with its own keys and settings, run by the user of the test.
# Sourced after lib.sh. `there` is its name in URLs (ssh://there/PATH); `mlx` is in PATH behind it. Stopped at the end.
command -v sshd >/dev/null || PATH=$PATH:/usr/sbin
for program in sshd ssh ssh-keygen python3; do
  command -v $program >/dev/null || { echo "skipped: no $program here" >&2; exit 77; }
done
# shellcheck source=sshd_settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/sshd_settings.sh"
sshd_pid="" proxy_pids=""
stop_sshd() {
  local pid
  for pid in $sshd_pid $proxy_pids; do kill "$pid" 2>/dev/null || true; done
}
trap 'stop_sshd; cleanup' EXIT

ssh_folder=$work/ssh
mkdir -p "$ssh_folder/bin"
ln -s "$mlx_binary" "$ssh_folder/bin/mlx"
for key in host_key user_key other_key; do ssh-keygen -q -t ed25519 -N '' -C "$key" -f "$ssh_folder/$key"; done
cp "$ssh_folder/user_key.pub" "$ssh_folder/authorized_keys"
# sshd started by root insists on this folder, which its service makes; another test may use it at the same time.
[ "$(id -u)" != 0 ] || mkdir -p /run/sshd
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
sshd_settings 127.0.0.1 "$ssh_folder/authorized_keys" "PATH=$ssh_folder/bin:/usr/local/bin:/usr/bin:/bin" >"$ssh_folder/sshd_config"
# Another process may take the port between finding and binding it.
for attempt in 1 2 3 4 5; do
  ssh_port=$(free_port)
  "$(command -v sshd)" -D -e -f "$ssh_folder/sshd_config" -p "$ssh_port" 2>"$ssh_folder/sshd.log" &
  sshd_pid=$!
  for _ in $(seq 100); do
    if grep -q "Server listening" "$ssh_folder/sshd.log" || ! kill -0 "$sshd_pid" 2>/dev/null; then break; fi
    sleep 0.05
  done
  grep -q "Server listening" "$ssh_folder/sshd.log" && break
  kill "$sshd_pid" 2>/dev/null || true
  [ "$attempt" -lt 5 ] || { echo "skipped: sshd does not start here: $(tail -1 "$ssh_folder/sshd.log")" >&2; exit 77; }
done

# host NAME PORT [KEY [OPTION...]]: a name that the test's ssh knows.
echo "127.0.0.1 $(cut -d' ' -f1,2 "$ssh_folder/host_key.pub")" >"$ssh_folder/known_hosts"
host() {
  local name=$1 port=$2 key=${3:-user_key}
  shift 2
  [ $# -eq 0 ] || shift
  # The first value of an option holds.
  printf '%s\n' "Host $name" "$@" "HostName 127.0.0.1" "HostKeyAlias 127.0.0.1" "Port $port" "IdentityFile $ssh_folder/$key" \
    "IdentitiesOnly yes" "UserKnownHostsFile $ssh_folder/known_hosts" "StrictHostKeyChecking yes" "BatchMode yes" >>"$ssh_folder/ssh_config"
}
host there "$ssh_port"
export MLX_SSH_COMMAND="ssh -F $ssh_folder/ssh_config"
unset MLX_REMOTE_MLX

# proxy NAME [OPTION...]: a way to the sshd through tests/cli/tcp_proxy.py, as the host NAME; it writes to NAME.log.
proxy() {
  local name=$1
  shift
  python3 "$here/tcp_proxy.py" "$ssh_port" "$@" >"$ssh_folder/$name.log" &
  proxy_pids="$proxy_pids $!"
  for _ in $(seq 100); do
    [ ! -s "$ssh_folder/$name.log" ] || break
    sleep 0.05
  done
  host "$name" "$(head -1 "$ssh_folder/$name.log")"
}

$MLX_SSH_COMMAND there true 2>"$ssh_folder/err" || { echo "skipped: no login by ssh here: $(cat "$ssh_folder/err")" >&2; exit 77; }
