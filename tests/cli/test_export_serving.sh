# Servers that other programs keep running: the socket and the states of a service manager, and the files that
# `mlx export systemd`, `compose` and `kserve` write.
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
# shellcheck source=trained.sh
source "$here/trained.sh"
manage() { python3 "$here/service_manager.py" "$@" 2>"$work/.manager"; }

# systemd's part, by a program of the test.
for place in 0 "$work/socket"; do
  same "$place: $(manage "$place" "$mlx_binary" serve clf)" "$place: 200 READY=1
STOPPING=1 0"
done
same "$(manage file "$mlx_binary" serve clf)" 2
has "$(cat "$work/.manager")" "LISTEN_FDS: descriptor 3 is no stream socket that listens"
same "$(manage two "$mlx_binary" serve clf)" 2
has "$(cat "$work/.manager")" "LISTEN_FDS: 2 sockets, and a server has one"

# Units.
expect 0 mlx export systemd --name 'clf 100%' --cpus 2 --memory 1GiB --user mlx --program '/opt/m l/mlx' --out clf.service -- clf@production "a=it's \$HOME \"%h\" \\" --listen=127.0.0.1:8443
for line in 'Description=mlx serve clf 100%%' 'Type=notify' 'User=mlx' 'CPUQuota=200%' 'MemoryMax=1073741824' "WorkingDirectory=$PWD" \
  'ExecStart="/opt/m l/mlx" "serve" "--grace" "30" "clf@production" "a=it'\''s $$HOME \"%%h\" \\" "--listen=127.0.0.1:8443"'; do
  grep -qxF -- "$line" clf.service || fail "no line $line in $(cat clf.service)"
done
has "$(mlx export systemd --socket -- clf -l unix:/run/clf.sock)" 'ListenStream=/run/clf.sock'
has "$(mlx export systemd --socket clf)" 'ListenStream=127.0.0.1:8080'
# bug: a unit that may not write where its socket is.
has "$(mlx export systemd -- clf --listen unix:/run/clf/s.sock)" 'RuntimeDirectory=clf'
has "$(mlx export systemd -- clf --listen unix:/srv/x/s.sock)" 'ReadWritePaths="/srv/x"'
error 2 "others would reach it, and there is no TLS" mlx export systemd -- clf --listen 0.0.0.0:8443
if command -v systemd-analyze >/dev/null; then
  mlx export systemd --program "$mlx_binary" clf >mlx.service
  mlx export systemd --socket clf >mlx.socket
  same "$(SYSTEMD_UNIT_PATH="$PWD:" systemd-analyze verify --man=no ./mlx.service ./mlx.socket 2>&1 | grep -F "$PWD" || true)" ""
fi

# bug: a name that begins as an address of the loopback passed for one.
error 2 "others would reach it, and there is no TLS" mlx export systemd -- clf --listen 127.example.test:8443

# Containers, as a YAML reader that nobody here wrote has them.
python3 -c 'import yaml' 2>/dev/null || exit 0
served=(-- clf@production "a=\$HOME" --listen 0.0.0.0:9000)
expect 0 mlx export kserve --name clf --namespace ml --image example/mlx:1 --claim repo --cpus 2 --memory 2GiB --grace 60 --out kserve.yaml "${served[@]}" --tls-cert c --tls-key k
expect 0 mlx export compose --name clf --image example/mlx:1 --cpus 2 "${served[@]}" --insecure
echo "$out" >compose.yaml
python3 - "$PWD" <<'PY' || fail "other manifests: $(cat kserve.yaml compose.yaml)"
import sys, yaml
kserve = yaml.safe_load(open("kserve.yaml"))
assert (kserve["apiVersion"], kserve["kind"]) == ("serving.kserve.io/v1beta1", "InferenceService")
assert kserve["metadata"] == {"name": "clf", "namespace": "ml"}
predictor = kserve["spec"]["predictor"]
container = predictor["containers"][0]
assert container["command"] == ["mlx"] and container["args"][:6] == ["serve", "--grace", "60", "clf@production", "a=$$HOME", "--listen"], container
assert container["ports"] == [{"containerPort": 9000, "protocol": "TCP"}]
assert container["readinessProbe"] == {"httpGet": {"path": "/v2/health/ready", "port": 9000, "scheme": "HTTPS"}}
assert container["resources"]["limits"] == {"cpu": "2", "memory": "2147483648"}
assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
assert container["volumeMounts"][0]["mountPath"] == container["workingDir"] == "/repository"
assert predictor["volumes"][0]["persistentVolumeClaim"] == {"claimName": "repo"} and predictor["terminationGracePeriodSeconds"] == 65
service = yaml.safe_load(open("compose.yaml"))["services"]["clf"]
assert service["entrypoint"] == ["mlx", "serve", "--grace", "30", "clf@production", "a=$$HOME", "--listen", "0.0.0.0:9000", "--insecure"]
assert service["ports"] == ["9000:9000"] and service["volumes"] == [{"type": "bind", "source": sys.argv[1], "target": "/repository"}]
assert service["read_only"] is True and service["cap_drop"] == ["ALL"] and service["cpus"] == 2
PY

# What would fail there is said here.
container() { mlx export kserve --image example/mlx:1 "$@"; }
error 2 "did you mean '--listen'?" mlx export systemd -- clf --lissten 127.0.0.1:1
error 2 "ARGUMENT" mlx export systemd
error 2 "in a container the server must listen at its address" container clf
error 2 "in a container the server must listen at its address" container -- clf --listen 127.0.0.1:9000
error 2 "others would reach it, and there is no TLS" container -- clf --listen 0.0.0.0:9000
error 2 "a container needs HOST:PORT" container -- clf --listen 0.0.0.0:0 --insecure
error 2 "Kubernetes does not take this name" container --name Clf -- clf --listen 0.0.0.0:9000 --insecure
error 2 "--image" mlx export compose clf
error 2 "a unit of systemd cannot hold it" mlx export systemd --name $'a\nExecStart=/bin/sh' clf
error 2 "--grace 0: expected 1 to 86400" mlx export systemd --grace 0 clf
error 3 "nowhere/x" mlx export systemd clf -o nowhere/x
