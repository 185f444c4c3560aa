# shellcheck shell=bash
# Settings through the program: files, environment, origins, errors.
. "$(dirname "$0")/lib.sh"
export HOME=$work/home XDG_CONFIG_HOME=''
mkdir "$HOME" && mlx init -q repo && cd repo

expect 0 mlx config --list --show-origin
has "$out" "default"
has "$out" "core.threads = 0"
has "$out" "remote.default = (not set)"
expect 1 mlx config remote.default
same "$out" ""
expect 0 mlx config --global core.threads 3
expect 0 mlx config --tracked core.threads 2
expect 0 mlx config core.threads
same "$out" 2
expect 0 mlx config -n core.threads 1
has "$out" "would be set"
expect 0 mlx config core.threads 1
expect 0 mlx config core.threads 1
has "$out" unchanged
expect 0 mlx config --show-origin core.threads
same "$out" ".mlx/config.toml:2  1"
expect 0 mlx config --global core.threads
same "$out" 3
expect 0 env MLX_THREADS=5 "$mlx_binary" config --json core.threads
same "$(json 'd["schema"], d["value"], d["origin"], d["place"]')" "('mlx.config/1', 5, 'environment', 'MLX_THREADS')"
expect 0 mlx config --unset core.threads
expect 0 mlx config --json --list
same "$(json '[(s["key"], s["value"], s["origin"]) for s in d["settings"] if s["key"] == "core.threads"]')" "[('core.threads', 2, 'tracked')]"
same "$(cat mlx.toml)" $'[core]\nthreads = 2'
same "$(cat "$HOME/.config/mlx/config.toml")" $'[core]\nthreads = 3'

error 2 "did you mean 'core.threads'" mlx config core.thread 1
error 2 "expected an integer" mlx config core.threads many
error 5 "secrets" mlx config remote.password hunter2
error 2 "exclude" mlx config --global --local core.threads 1
error 2 "unexpected argument" mlx config core.threads 1 2
error 2 "--unset needs a KEY" mlx config --unset
cd "$work"
error 2 "not in an mlx repository" mlx config core.threads 1
expect 0 mlx config core.threads
same "$out" 3

# Every command that reads settings names the place of a mistake.
cd repo
mkdir -p data/x && echo a >data/x/a
echo "thread = 1" >>mlx.toml
error 2 "mlx.toml:3: no setting is called 'core.thread'" mlx status
expect 0 mlx config --global core.threads 4
echo "[core]" >mlx.toml

# The default remote; one that is named is stronger.
mlx remote add -q lab ../lab && mlx remote add -q office ../office
error 3 "several remotes" mlx push
expect 0 mlx config --tracked remote.default office
mlx add -q data/x && mlx commit -q -m m
expect 0 mlx push --json
same "$(json 'd["remote"]')" office
expect 0 env MLX_REMOTE_DEFAULT=lab "$mlx_binary" push --json
same "$(json 'd["remote"]')" lab
expect 0 mlx push --json office
same "$(json 'd["remote"]')" office
expect 0 mlx completion --words setting
has "$out" remote.default

# Remotes: the dry run and the real one.
expect 0 mlx remote add -n third ../third
has "$out" "would be added"
lacks "$(cat mlx.toml)" third
expect 0 mlx remote remove -n lab
has "$out" "would be removed"
has "$(cat mlx.toml)" "[remotes.lab]"
error 3 "no remote is called" mlx remote remove -n labb
