#!/bin/bash
# Measures the store against other tools, in one run, alternating, and prints medians, ratios and the targets that
# DESIGN 9 sets. Exit 1 where one was missed.
#
#   tests/bench/store.sh build/release/mlx [--quick] [--runs N] [--venv DIR | --make-venv DIR] [--only STEP]...
#                        [--size STEP=N]... [--folder DIR] [--json FILE]
#
# Steps: small status checkpoint large million. --size sets that of one: how many files small (which status looks at) and
# million have, how many MiB checkpoint and large. Peers that are not installed are named as skipped; dvc and oxenai are
# looked for in --venv, and --make-venv installs them there from PyPI. Everything stands in a folder below --folder
# ($TMPDIR or /tmp) and is removed at the end: about 20 GiB at full size, 3 GiB with --quick. --json writes the medians
# for other programs; it stands there where a target was missed, but not where something could not be measured.
#
# Where bench_stat is built beside mlx, status is also compared with the least that looking at every file costs.
#
# Durability, as each tool comes: mlx, restic and borg sync what they stored before they return; git, git-lfs, dvc and
# oxen leave it to the kernel. restic also encrypts. The data is in the page cache before anything is measured.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# -ge 1 ] || { sed -n '2,20p' "${BASH_SOURCE[0]}" | cut -c3-; exit 2; }
mlx=$(readlink -f "$1")
command_line="$0 $*"
shift
runs=3 venv="" only=() base=${TMPDIR:-/tmp} json=""
declare -A size=([small]=100000 [checkpoint]=2048 [large]=4096 [million]=1000000)
while [ $# -gt 0 ]; do
  case $1 in
    --quick) size=([small]=10000 [checkpoint]=256 [large]=512 [million]=50000); shift ;;
    --size)
      [[ $2 =~ ^(small|checkpoint|large|million)=([1-9][0-9]*)$ ]] || { echo "--size takes STEP=N, not $2" >&2; exit 2; }
      size[${BASH_REMATCH[1]}]=${BASH_REMATCH[2]}; shift 2 ;;
    --json) json=$(realpath "$2"); shift 2 ;;
    --runs) runs=$2; shift 2 ;;
    --venv) venv=$2; shift 2 ;;
    --make-venv) venv=$2; python3 -m venv "$venv"; "$venv/bin/pip" -q install dvc oxenai; shift 2 ;;
    --only) only+=("$2"); shift 2 ;;
    --folder) base=$2; shift 2 ;;
    *) echo "unknown option $1" >&2; exit 2 ;;
  esac
done

work=$(mktemp -d "$base/mlx-bench.XXXXXX")
trap 'chmod -R u+w "$work" 2>/dev/null; rm -rf "$work"' EXIT
results=$work/results
: >"$results"
export HOME=$work/home RESTIC_PASSWORD=bench BORG_BASE_DIR=$work/borg-home BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK=yes
export GIT_CONFIG_SYSTEM=/dev/null GIT_AUTHOR_NAME=b GIT_AUTHOR_EMAIL=b@example.com GIT_COMMITTER_NAME=b
export GIT_COMMITTER_EMAIL=b@example.com DVC_NO_ANALYTICS=1 DVC_GLOBAL_CONFIG_DIR=$work/dvc DVC_SITE_CACHE_DIR=$work/dvc
mkdir -p "$HOME"
[ -z "$venv" ] || venv=$(readlink -f "$venv")

wanted() { [ ${#only[@]} = 0 ] || [[ " ${only[*]} " == *" $1 "* ]]; }
# What the tools before it left to the kernel is written first, and what they left running has ended, so that no tool
# pays for another.
measure() { sync && python3 "$here/store_table.py" measure "$results" "$@"; }
note() { python3 "$here/store_table.py" note "$results" "$@"; }
bytes_in() { du -sb --apparent-size "$1" | cut -f1; }
installed() {
  case $1 in
    mlx) return 0 ;;
    git-lfs) command -v git-lfs >/dev/null && command -v git >/dev/null ;;
    dvc) [ -n "$venv" ] && [ -x "$venv/bin/dvc" ] ;;
    oxen) [ -n "$venv" ] && "$venv/bin/python" -c 'import oxen' 2>/dev/null ;;
    *) command -v "$1" >/dev/null ;;
  esac
}
version_of() {
  case $1 in
    mlx) "$mlx" --version ;;
    git-lfs) git lfs version ;;
    dvc) echo "dvc $("$venv/bin/dvc" --version)" ;;
    oxen) "$venv/bin/python" -c 'import oxen; print("oxenai", oxen.__version__)' ;;
    restic) restic version ;;
    *) "$1" --version ;;
  esac | head -n1
}

tools=() skipped=()
echo "store benchmark  $(date -u '+%Y-%m-%d %H:%M UTC')  $command_line"
echo "machine: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n1), $(nproc) cores," \
  "$(awk '/MemTotal/ {printf "%.0f GiB", $2 / 1048576}' /proc/meminfo), Linux $(uname -r)," \
  "$(stat -f -c %T "$work"), load $(cut -d' ' -f1-3 /proc/loadavg)"
for tool in mlx git git-lfs restic borg dvc oxen; do
  if installed "$tool"; then
    tools+=("$tool")
    echo "  $(version_of "$tool")"
  else
    skipped+=("$tool")
    echo "  $tool: skipped: not installed"
  fi
done
has_tool() { [[ " ${tools[*]} " == *" $1 "* ]]; }

# A repository of a tool in the current folder, or beside it for those that are no version control.
prepare() {
  case $1 in
    mlx) "$mlx" -q init >/dev/null ;;
    git) git init -q . ;;
    git-lfs) git init -q . && git lfs install --local >/dev/null && git lfs track 'data/**' >/dev/null ;;
    restic) restic -q init -r "$work/restic" >/dev/null ;;
    borg) borg init -e none "$work/borg" >/dev/null 2>&1 ;;
    dvc) git init -q . && "$venv/bin/dvc" -q init ;;
    oxen) "$venv/bin/python" -c 'import oxen; oxen.Repo(".").init()' ;;
  esac
}
# store STEP TOOL PATH: measures storing the path.
store() {
  case $2 in
    mlx) measure "$1" mlx "$mlx" -q add "$3" ;;
    git | git-lfs) measure "$1" "$2" git add "$3" ;;
    restic) measure "$1" restic restic -q backup -r "$work/restic" "$3" ;;
    borg) measure "$1" borg borg create "$work/borg::$RANDOM$RANDOM" "$3" ;;
    dvc) measure "$1" dvc "$venv/bin/dvc" -q add "$3" ;;
    oxen) measure "$1" oxen "$venv/bin/python" -c 'import oxen, sys; oxen.Repo(".").add(sys.argv[1])' "$3" ;;
  esac
}
repository_of() {
  case $1 in
    mlx) echo .mlx ;;
    git | git-lfs) echo .git ;;
    restic | borg) echo "$work/$1" ;;
    dvc) echo .dvc/cache ;;
    oxen) echo .oxen ;;
  esac
}
# Everything but the data itself.
forget() {
  chmod -R u+w . 2>/dev/null || true
  rm -rf .mlx .git .dvc .oxen .gitignore .gitattributes .dvcignore ./*.mlx ./*.dvc "$work/restic" "$work/borg"
}

measure_small() {
  cd "$work/small"
  for ((run = 0; run < runs; run++)); do
    for tool in "${tools[@]}"; do
      [ "$run" = 0 ] || [[ " git-lfs dvc oxen " != *" $tool "* ]] || continue  # minutes each: once
      prepare "$tool"
      find data -type f -exec cat {} + >/dev/null  # again: the kernel forgets some of it meanwhile
      store "add small files" "$tool" data
      [ "$run" != 0 ] || note "add small files" "$tool" "stored MiB" $(($(bytes_in "$(repository_of "$tool")") / 1048576))
      if [ "$tool" = mlx ]; then
        # Once more, with nothing changed.
        store "add small files again" mlx data
        rm -f .gitignore
      fi
      forget
    done
  done
}

measure_status() {
  cd "$work/small"
  prepare mlx
  "$mlx" -q add data >/dev/null
  rm -f .gitignore
  if has_tool git; then
    git init -q .
    git add data data.mlx
    git commit -qm data
    git status >/dev/null
  fi
  sleep 0.1
  "$mlx" status >/dev/null
  for ((run = 0; run < 3 * runs; run++)); do
    measure "status unchanged" mlx "$mlx" status
    [ ! -x "$(dirname "$mlx")/bench_stat" ] || measure "status unchanged" floor "$(dirname "$mlx")/bench_stat" data
    has_tool git || continue
    measure "status unchanged" git git status
    measure "status unchanged" "git, plain" git -c core.fsmonitor=false -c core.untrackedCache=false status
  done
  forget
}

measure_checkpoint() {
  local kind changed before after
  for kind in raw safetensors; do
    mkdir "$work/checkpoint"
    cd "$work/checkpoint"
    python3 "$here/store_data.py" checkpoint first "${size[checkpoint]}" $kind >/dev/null
    changed=$(python3 "$here/store_data.py" checkpoint second "${size[checkpoint]}" $kind changed)
    for ((run = 0; run < runs; run++)); do
      for tool in "${tools[@]}"; do
        [[ " mlx restic borg " == *" $tool "* ]] || continue
        prepare "$tool"
        cp first model
        sleep 0.1
        store "add $kind checkpoint" "$tool" model
        before=$(bytes_in "$(repository_of "$tool")")
        cp second model
        sleep 0.1
        store "add next $kind checkpoint" "$tool" model
        after=$(bytes_in "$(repository_of "$tool")")
        [ "$run" != 0 ] || note "add next $kind checkpoint" "$tool" "stored / changed" \
          "$(awk "BEGIN { print ($after - $before) / $changed }")"
        forget
      done
    done
    cd "$work"
    rm -rf checkpoint
  done
}

measure_large() {
  mkdir "$work/large"
  cd "$work/large"
  python3 "$here/store_data.py" large file "${size[large]}"
  for tool in "${tools[@]}"; do
    [[ " mlx restic borg " == *" $tool "* ]] || continue
    prepare "$tool"
    store "add large file" "$tool" file
    forget
  done
  cd "$work"
  rm -rf large
}

measure_million() {
  mkdir "$work/million"
  cd "$work/million"
  python3 "$here/store_data.py" tiny data "${size[million]}"
  prepare mlx
  store "million: add" mlx data
  sleep 0.1
  measure "million: first status" mlx "$mlx" status
  for ((run = 0; run < runs; run++)); do measure "million: status" mlx "$mlx" status; done
  measure "million: commit" mlx "$mlx" commit -m all
  echo changed >data/image_0000007.txt
  sleep 0.1
  measure "million: status, one changed" mlx "$mlx" status
  [ "$("$mlx" status | grep -c modified)" -ge 1 ] || { echo "the changed file was not seen" >&2; exit 1; }
  measure "million: add, one changed" mlx "$mlx" add data
  measure "million: commit, one changed" mlx "$mlx" commit -m one
  "$mlx" remote add origin "$work/million-remote" >/dev/null
  measure "million: push" mlx "$mlx" push
  measure "million: push again" mlx "$mlx" push
  if has_tool git; then
    rm -f .gitignore
    git init -q .
    git add data
    git status >/dev/null
    for ((run = 0; run < runs; run++)); do measure "million: status" git git status; done
  fi
  cd "$work"
  rm -rf million million-remote
}

if wanted small || wanted status; then
  mkdir "$work/small"
  python3 "$here/store_data.py" small "$work/small/data" "${size[small]}"
  find "$work/small/data" -type f -exec cat {} + >/dev/null
  sync
fi
for step in small status checkpoint large million; do
  if wanted "$step"; then "measure_$step"; fi
done
echo "load at the end: $(cut -d' ' -f1-3 /proc/loadavg)"
[ -z "$json" ] || python3 "$here/store_table.py" json "$results" "${tools[*]}" "${skipped[*]}" >"$json"
python3 "$here/store_table.py" print "$results"
