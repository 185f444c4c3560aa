# bash completion of mlx
# Made by `mlx help --generate` from the options' declarations. Do not edit.

# _mlx_command PATH PREVIOUS POSITION: sets options, subcommands, and the kind of word that is due.
_mlx_command() {
  options='' subcommands='' kind=''
  case $1 in
    '')
      options='--version -C -q --quiet -v --verbose --color -h --help'
      subcommands='init clone add status diff commit log show ls cat checkout tag rm merge-file undo gc fsck remote fetch pull push check describe tokenizer import export promote rollback golden audit key erase lineage train eval predict monitor quantize distill serve help completion config report version serve-store rank'
      case $2 in
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'init')
      options='--encrypt --passphrase-file --recipient -n --dry-run --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        0) kind=folder ;;
      esac
      case $2 in
        --passphrase-file) kind=file ;;
        --recipient) kind=file ;;
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'clone')
      options='--filter --encrypt -b --branch --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        0) kind=folder ;;
        1) kind=folder ;;
      esac
      case $2 in
        --filter) kind='choice none blobs:none' ;;
        -b|--branch) kind=nothing ;;
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'add')
      options='-n --dry-run --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        [0-9]*) kind=file ;;
      esac
      case $2 in
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'status')
      options='--json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        [0-9]*) kind=file ;;
      esac
      case $2 in
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'diff')
      options='-k --key --stat --name-only --name-status --limit --exit-code --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        [0-9]*) kind=reference ;;
      esac
      case $2 in
        -k|--key) kind=nothing ;;
        --limit) kind=nothing ;;
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'commit')
      options='-m --message -n --dry-run --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        [0-9]*) kind=file ;;
      esac
      case $2 in
        -m|--message) kind=nothing ;;
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'log')
      options='--runs --status --where --sort --reverse --oneline --since --until -n --max-count --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        0) kind=reference ;;
      esac
      case $2 in
        --status) kind='choice running done failed interrupted killed' ;;
        --where) kind=nothing ;;
        --sort) kind=nothing ;;
        --since) kind=nothing ;;
        --until) kind=nothing ;;
        -n|--max-count) kind=nothing ;;
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'show')
      options='--stat --metric --csv --rank-log --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        0) kind=reference ;;
      esac
      case $2 in
        --metric) kind=nothing ;;
        --rank-log) kind=nothing ;;
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'ls')
      options='-d --folders --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        0) kind=reference ;;
      esac
      case $2 in
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'cat')
      options='--json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        [0-9]*) kind=reference ;;
      esac
      case $2 in
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'checkout')
      options='--to --link -f --force -n --dry-run --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        [0-9]*) kind=reference ;;
      esac
      case $2 in
        --to) kind=folder ;;
        --link) kind='choice copy hardlink reflink' ;;
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'tag')
      options='-l --list -d --delete -n --dry-run --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        0) kind=nothing ;;
        1) kind=reference ;;
      esac
      case $2 in
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'rm')
      options='--cached -f --force -n --dry-run --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        [0-9]*) kind=file ;;
      esac
      case $2 in
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'merge-file')
      options='--path --ours --theirs -n --dry-run --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        0) kind=file ;;
        1) kind=file ;;
        2) kind=file ;;
      esac
      case $2 in
        --path) kind=file ;;
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'undo')
      options='--redo -n --dry-run --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        0) kind=operation ;;
      esac
      case $2 in
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'gc')
      options='--yes --grace --remote -n --dry-run --json -C -q --quiet -v --verbose --color -h --help'
      case $2 in
        --grace) kind=nothing ;;
        --remote) kind=remote ;;
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'fsck')
      options='--repair --remote --rebuild -n --dry-run --json -C -q --quiet -v --verbose --color -h --help'
      case $2 in
        --remote) kind=remote ;;
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'remote')
      options='--json -C -q --quiet -v --verbose --color -h --help'
      subcommands='add list remove'
      case $2 in
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'remote add')
      options='--encrypt --passphrase-file --recipient -n --dry-run --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        0) kind=nothing ;;
        1) kind=folder ;;
      esac
      case $2 in
        --passphrase-file) kind=file ;;
        --recipient) kind=file ;;
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'remote list')
      options='--json -C -q --quiet -v --verbose --color -h --help'
      case $2 in
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'remote remove')
      options='-n --dry-run --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        0) kind=remote ;;
      esac
      case $2 in
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'fetch')
      options='--all --allow-unrelated-histories -n --dry-run --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        0) kind=remote ;;
      esac
      case $2 in
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'pull')
      options='--all --allow-unrelated-histories --renumber -f --force -n --dry-run --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        0) kind=remote ;;
      esac
      case $2 in
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'push')
      options='--check --repair --without-missing --hook -n --dry-run --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        0) kind=remote ;;
      esac
      case $2 in
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'check')
      options='--split --junit --infer --write -n --dry-run --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        0) kind=reference ;;
      esac
      case $2 in
        --split) kind=nothing ;;
        --junit) kind=file ;;
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'describe')
      options='--against --target --html --again --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        0) kind=reference ;;
        1) kind=reference ;;
      esac
      case $2 in
        --against) kind=reference ;;
        --target) kind=nothing ;;
        --html) kind=file ;;
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'tokenizer')
      options='--json -C -q --quiet -v --verbose --color -h --help'
      subcommands='train encode decode'
      case $2 in
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'tokenizer train')
      options='-c --config --vocab --split --column --special -o --out --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        0) kind=reference ;;
      esac
      case $2 in
        -c|--config) kind=file ;;
        --vocab) kind=nothing ;;
        --split) kind=nothing ;;
        --column) kind=nothing ;;
        --special) kind=nothing ;;
        -o|--out) kind=file ;;
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'tokenizer encode')
      options='--lines -0 --null --special --jsonl --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        0) kind=file ;;
        1) kind=file ;;
      esac
      case $2 in
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'tokenizer decode')
      options='--skip-special --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        0) kind=file ;;
        1) kind=file ;;
      esac
      case $2 in
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'import')
      options='--json -C -q --quiet -v --verbose --color -h --help'
      subcommands='dvc lfs model'
      case $2 in
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'import dvc')
      options='--remove -n --dry-run --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        [0-9]*) kind=file ;;
      esac
      case $2 in
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'import lfs')
      options='-n --dry-run --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        [0-9]*) kind=file ;;
      esac
      case $2 in
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'import model')
      options='--name --context -n --dry-run --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        0) kind=file ;;
      esac
      case $2 in
        --name) kind=nothing ;;
        --context) kind=nothing ;;
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'export')
      options='--json -C -q --quiet -v --verbose --color -h --help'
      subcommands='compose kserve lfs model mpijob slurm systemd'
      case $2 in
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'export compose')
      options='--name --cpus --memory --grace -o --out --image --program --mount --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        [0-9]*) kind=nothing ;;
      esac
      case $2 in
        --name) kind=nothing ;;
        --cpus) kind=nothing ;;
        --memory) kind=nothing ;;
        --grace) kind=nothing ;;
        -o|--out) kind=file ;;
        --image) kind=nothing ;;
        --program) kind=nothing ;;
        --mount) kind=nothing ;;
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'export kserve')
      options='--name --cpus --memory --grace -o --out --image --program --mount --claim --namespace --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        [0-9]*) kind=nothing ;;
      esac
      case $2 in
        --name) kind=nothing ;;
        --cpus) kind=nothing ;;
        --memory) kind=nothing ;;
        --grace) kind=nothing ;;
        -o|--out) kind=file ;;
        --image) kind=nothing ;;
        --program) kind=nothing ;;
        --mount) kind=nothing ;;
        --claim) kind=nothing ;;
        --namespace) kind=nothing ;;
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'export lfs')
      options='-n --dry-run --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        0) kind=reference ;;
        1) kind=folder ;;
      esac
      case $2 in
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'export model')
      options='--format -o --out --dtype --shard --base -n --dry-run --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        0) kind=reference ;;
      esac
      case $2 in
        --format) kind='choice hf gguf peft' ;;
        -o|--out) kind=file ;;
        --dtype) kind='choice f32 f16 bf16' ;;
        --shard) kind=nothing ;;
        --base) kind=nothing ;;
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'export mpijob')
      options='-c --config --ranks --set --cpus --memory --name --program -o --out --image --slots --claim --mount --workdir --namespace --json -C -q --quiet -v --verbose --color -h --help'
      case $2 in
        -c|--config) kind=file ;;
        --ranks) kind=nothing ;;
        --set) kind=nothing ;;
        --cpus) kind=nothing ;;
        --memory) kind=nothing ;;
        --name) kind=nothing ;;
        --program) kind=file ;;
        -o|--out) kind=file ;;
        --image) kind=nothing ;;
        --slots) kind=nothing ;;
        --claim) kind=nothing ;;
        --mount) kind=nothing ;;
        --workdir) kind=nothing ;;
        --namespace) kind=nothing ;;
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'export slurm')
      options='-c --config --ranks --set --cpus --memory --name --program -o --out --launcher --notice --sbatch --json -C -q --quiet -v --verbose --color -h --help'
      case $2 in
        -c|--config) kind=file ;;
        --ranks) kind=nothing ;;
        --set) kind=nothing ;;
        --cpus) kind=nothing ;;
        --memory) kind=nothing ;;
        --name) kind=nothing ;;
        --program) kind=file ;;
        -o|--out) kind=file ;;
        --launcher) kind='choice auto srun mpirun' ;;
        --notice) kind=nothing ;;
        --sbatch) kind=nothing ;;
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'export systemd')
      options='--name --cpus --memory --grace -o --out --socket --user --program --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        [0-9]*) kind=nothing ;;
      esac
      case $2 in
        --name) kind=nothing ;;
        --cpus) kind=nothing ;;
        --memory) kind=nothing ;;
        --grace) kind=nothing ;;
        -o|--out) kind=file ;;
        --user) kind=nothing ;;
        --program) kind=file ;;
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'promote')
      options='-m --message -n --dry-run --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        0) kind=reference ;;
        1) kind=nothing ;;
      esac
      case $2 in
        -m|--message) kind=nothing ;;
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'rollback')
      options='--to -m --message -n --dry-run --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        0) kind=reference ;;
      esac
      case $2 in
        --to) kind=reference ;;
        -m|--message) kind=nothing ;;
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'golden')
      options='-d --data -s --split --examples --tokens -n --dry-run --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        0) kind=reference ;;
      esac
      case $2 in
        -d|--data) kind=reference ;;
        -s|--split) kind=nothing ;;
        --examples) kind=nothing ;;
        --tokens) kind=nothing ;;
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'audit')
      options='--json -C -q --quiet -v --verbose --color -h --help'
      subcommands='log verify signature forget'
      case $2 in
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'audit log')
      options='--actor --kind --since --until --max-count --all --jsonl --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        0) kind=reference ;;
      esac
      case $2 in
        --actor) kind=nothing ;;
        --kind) kind='choice access access.add access.revoke actor actor.describe actor.forget alias alias.move attach domain domain.assign history history.join key key.erase operation operation.undo run run.checkpoint run.end run.log run.resume run.start tag tag.create tag.delete version version.create version.lost version.renumber' ;;
        --since) kind=nothing ;;
        --until) kind=nothing ;;
        --max-count) kind=nothing ;;
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'audit verify')
      options='--head --remote --json -C -q --quiet -v --verbose --color -h --help'
      case $2 in
        --head) kind=nothing ;;
        --remote) kind=remote ;;
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'audit signature')
      options='--message --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        0) kind=nothing ;;
      esac
      case $2 in
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'audit forget')
      options='-n --dry-run --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        0) kind=nothing ;;
      esac
      case $2 in
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'key')
      options='--json -C -q --quiet -v --verbose --color -h --help'
      subcommands='list new-identity export-public add-recipient remove-recipient add-passphrase change-passphrase rotate pin domain assign api signing people trust distrust'
      case $2 in
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'key list')
      options='--json -C -q --quiet -v --verbose --color -h --help'
      case $2 in
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'key new-identity')
      options='--json -C -q --quiet -v --verbose --color -h --help'
      case $2 in
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'key export-public')
      options='--json -C -q --quiet -v --verbose --color -h --help'
      case $2 in
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'key add-recipient')
      options='--name --passphrase-file -n --dry-run --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        0) kind=file ;;
      esac
      case $2 in
        --name) kind=nothing ;;
        --passphrase-file) kind=file ;;
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'key remove-recipient')
      options='--passphrase-file -n --dry-run --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        0) kind=nothing ;;
      esac
      case $2 in
        --passphrase-file) kind=file ;;
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'key add-passphrase')
      options='--name --passphrase-file --new-passphrase-file -n --dry-run --json -C -q --quiet -v --verbose --color -h --help'
      case $2 in
        --name) kind=nothing ;;
        --passphrase-file) kind=file ;;
        --new-passphrase-file) kind=file ;;
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'key change-passphrase')
      options='--passphrase-file --new-passphrase-file -n --dry-run --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        0) kind=nothing ;;
      esac
      case $2 in
        --passphrase-file) kind=file ;;
        --new-passphrase-file) kind=file ;;
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'key rotate')
      options='--passphrase-file -n --dry-run --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        0) kind=nothing ;;
      esac
      case $2 in
        --passphrase-file) kind=file ;;
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'key pin')
      options='--replace -n --dry-run --json -C -q --quiet -v --verbose --color -h --help'
      case $2 in
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'key domain')
      options='--json -C -q --quiet -v --verbose --color -h --help'
      subcommands='add'
      case $2 in
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'key domain add')
      options='--passphrase-file -n --dry-run --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        0) kind=nothing ;;
      esac
      case $2 in
        --passphrase-file) kind=file ;;
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'key assign')
      options='-n --dry-run --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        0) kind=nothing ;;
        1) kind=nothing ;;
      esac
      case $2 in
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'key api')
      options='--json -C -q --quiet -v --verbose --color -h --help'
      subcommands='add list revoke'
      case $2 in
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'key api add')
      options='--role --model --expires --per-minute --per-day -n --dry-run --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        0) kind=nothing ;;
      esac
      case $2 in
        --role) kind=nothing ;;
        --model) kind=nothing ;;
        --expires) kind=nothing ;;
        --per-minute) kind=nothing ;;
        --per-day) kind=nothing ;;
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'key api list')
      options='--json -C -q --quiet -v --verbose --color -h --help'
      case $2 in
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'key api revoke')
      options='-n --dry-run --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        0) kind=nothing ;;
      esac
      case $2 in
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'key signing')
      options='--json -C -q --quiet -v --verbose --color -h --help'
      case $2 in
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'key people')
      options='--json -C -q --quiet -v --verbose --color -h --help'
      case $2 in
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'key trust')
      options='--may --replace --again --up-to-now -n --dry-run --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        0) kind=nothing ;;
        1) kind=file ;;
      esac
      case $2 in
        --may) kind=nothing ;;
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'key distrust')
      options='-n --dry-run --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        0) kind=nothing ;;
      esac
      case $2 in
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'erase')
      options='-y --yes -n --dry-run --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        0) kind=reference ;;
      esac
      case $2 in
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'lineage')
      options='--json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        0) kind=reference ;;
      esac
      case $2 in
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'train')
      options='-c --config --set --resume --fresh --device --ranks --hosts --ship --tp --zero --pp --balance --min-ranks --verify-every --sync-every --async --hostfile --wire --encrypt --precision --numerics --force --memory --merge --profile --trace -n --dry-run --json -C -q --quiet -v --verbose --color -h --help'
      case $2 in
        -c|--config) kind=file ;;
        --set) kind=nothing ;;
        --resume) kind=run ;;
        --device) kind='choice auto cpu cuda' ;;
        --ranks) kind=nothing ;;
        --hosts) kind=nothing ;;
        --tp) kind=nothing ;;
        --zero) kind='choice 0 1' ;;
        --pp) kind=nothing ;;
        --min-ranks) kind=nothing ;;
        --verify-every) kind=nothing ;;
        --sync-every) kind=nothing ;;
        --async) kind=nothing ;;
        --hostfile) kind=file ;;
        --wire) kind='choice f32 bf16' ;;
        --precision) kind='choice auto bf16 f32 fp16 tf32' ;;
        --numerics) kind='choice native portable' ;;
        --memory) kind=nothing ;;
        --trace) kind=file ;;
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'eval')
      options='-d --data -s --split --device --memory --force --require --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        0) kind=reference ;;
      esac
      case $2 in
        -d|--data) kind=reference ;;
        -s|--split) kind=nothing ;;
        --device) kind='choice auto cpu cuda' ;;
        --memory) kind=nothing ;;
        --require) kind=nothing ;;
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'predict')
      options='-o --out -s --split --device --top -p --prompt --tokens --logits --embed --pooling --normalize --truncate --chat --system --max-tokens --temperature --top-k --top-p --min-p --typical --repetition-penalty --frequency-penalty --presence-penalty --logit-bias --seed --count --stop --grammar --schema --logprobs --speculate --draft --cache --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        0) kind=reference ;;
        [0-9]*) kind=file ;;
      esac
      case $2 in
        -o|--out) kind=file ;;
        -s|--split) kind=nothing ;;
        --device) kind='choice auto cpu cuda' ;;
        --top) kind=nothing ;;
        -p|--prompt) kind=nothing ;;
        --tokens) kind=nothing ;;
        --logits) kind=file ;;
        --embed) kind=file ;;
        --pooling) kind='choice last mean cls max' ;;
        --system) kind=nothing ;;
        --max-tokens) kind=nothing ;;
        --temperature) kind=nothing ;;
        --top-k) kind=nothing ;;
        --top-p) kind=nothing ;;
        --min-p) kind=nothing ;;
        --typical) kind=nothing ;;
        --repetition-penalty) kind=nothing ;;
        --frequency-penalty) kind=nothing ;;
        --presence-penalty) kind=nothing ;;
        --logit-bias) kind=nothing ;;
        --seed) kind=nothing ;;
        --count) kind=nothing ;;
        --stop) kind=nothing ;;
        --grammar) kind=file ;;
        --schema) kind=file ;;
        --logprobs) kind=nothing ;;
        --speculate) kind=nothing ;;
        --draft) kind=reference ;;
        --cache) kind='choice f32 f16 q8' ;;
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'monitor')
      options='-d --data -s --split --against --against-split --window --persist --level --min-psi --min-items -o --out --device --again --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        0) kind=reference ;;
      esac
      case $2 in
        -d|--data) kind=reference ;;
        -s|--split) kind=nothing ;;
        --against) kind=reference ;;
        --against-split) kind=nothing ;;
        --window) kind=nothing ;;
        --persist) kind=nothing ;;
        --level) kind=nothing ;;
        --min-psi) kind=nothing ;;
        --min-items) kind=nothing ;;
        -o|--out) kind=file ;;
        --device) kind='choice auto cpu cuda' ;;
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'quantize')
      options='--to --method --calibrate --group -s --split --examples --max-loss --max-kl -d --data --data-split --windows --memory --point --force -n --dry-run --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        0) kind=reference ;;
      esac
      case $2 in
        --to) kind='choice int8 int4 q6_k q5_k q4_k q3_k q2_k' ;;
        --method) kind='choice rtn gptq awq' ;;
        --calibrate) kind=reference ;;
        --group) kind=nothing ;;
        -s|--split) kind=nothing ;;
        --examples) kind=nothing ;;
        --max-loss) kind=nothing ;;
        --max-kl) kind=nothing ;;
        -d|--data) kind=reference ;;
        --data-split) kind=nothing ;;
        --windows) kind=nothing ;;
        --memory) kind=nothing ;;
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'distill')
      options='-c --config --temperature --share --set --resume --fresh --device --precision --numerics --force --memory -n --dry-run --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        0) kind=reference ;;
      esac
      case $2 in
        -c|--config) kind=file ;;
        --temperature) kind=nothing ;;
        --share) kind=nothing ;;
        --set) kind=nothing ;;
        --resume) kind=run ;;
        --device) kind='choice auto cpu cuda' ;;
        --precision) kind='choice auto bf16 f32 tf32' ;;
        --numerics) kind='choice native portable' ;;
        --memory) kind=nothing ;;
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'serve')
      options='-l --listen --tls-cert --tls-key --client-ca --keys --insecure --max-batch --max-body --queue --idle-timeout --grace --speculate --cache --rollback-on --monitor --log --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        [0-9]*) kind=reference ;;
      esac
      case $2 in
        -l|--listen) kind=nothing ;;
        --tls-cert) kind=file ;;
        --tls-key) kind=file ;;
        --client-ca) kind=file ;;
        --keys) kind=file ;;
        --max-batch) kind=nothing ;;
        --max-body) kind=nothing ;;
        --queue) kind=nothing ;;
        --idle-timeout) kind=nothing ;;
        --grace) kind=nothing ;;
        --speculate) kind=nothing ;;
        --cache) kind='choice f32 f16 q8' ;;
        --rollback-on) kind=nothing ;;
        --monitor) kind=nothing ;;
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'help')
      options='-C -q --quiet -v --verbose --color -h --help'
      case $3 in
        [0-9]*) kind=command ;;
      esac
      case $2 in
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'completion')
      options='-C -q --quiet -v --verbose --color -h --help'
      case $3 in
        0) kind='choice bash zsh fish' ;;
      esac
      case $2 in
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'config')
      options='-l --list --show-origin --unset --local --tracked --global -n --dry-run --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        [0-9]*) kind=setting ;;
      esac
      case $2 in
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'report')
      options='-o --out --json -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        0) kind=reference ;;
      esac
      case $2 in
        -o|--out) kind=file ;;
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'version')
      options='--json -C -q --quiet -v --verbose --color -h --help'
      case $2 in
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'serve-store')
      options='--stdio --root --read-only --repair -C -q --quiet -v --verbose --color -h --help'
      case $3 in
        0) kind=folder ;;
      esac
      case $2 in
        --root) kind=folder ;;
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
    'rank')
      options='--facts --key --store -C -q --quiet -v --verbose --color -h --help'
      case $2 in
        --store) kind=folder ;;
        -C) kind=folder ;;
        --color) kind='choice auto always never' ;;
      esac
      ;;
  esac
}

# _mlx_split LINE: sets words as the shell would see them, quote to what is still open, and before to the part of the
# last word that bash leaves as it is: what stands in front of the last of @ : = that is not quoted.
_mlx_split() {
  local line=$1 c at fresh=1
  words=() quote='' before=''
  for ((at = 0; at < ${#line}; at++)); do
    c=${line:at:1}
    if [[ ! $quote && $c == [[:space:]] ]]; then
      fresh=1
      continue
    fi
    if [[ $fresh ]]; then words+=('') fresh='' before=''; fi
    if [[ $quote ]]; then
      if [[ $c == "$quote" ]]; then
        quote=''
        continue
      elif [[ $quote == '"' && $c == \\ && ${line:at+1:1} == [\"\\\$\`] ]]; then
        at=$((at + 1)) c=${line:at:1}
      fi
    elif [[ $c == [\'\"] ]]; then
      quote=$c before=${words[-1]}
      continue
    elif [[ $c == \\ ]]; then
      at=$((at + 1)) c=${line:at:1}
    elif [[ $c == [@:=] ]]; then
      before=${words[-1]}$c
    fi
    words[-1]+=$c
  done
  if [[ $fresh ]]; then words+=('') before=''; fi
}

_mlx() {
  local options subcommands kind path='' previous='' word quote before
  local -a words replies=() found=()
  _mlx_split "${COMP_LINE:0:COMP_POINT}"
  local cur=${words[-1]} position=0 i
  for ((i = 1; i < ${#words[@]} - 1; i++)); do
    word=${words[i]}
    _mlx_command "$path" "$previous" 0
    if [[ $previous == -* && $kind ]]; then
      previous=''  # the value of an option
    elif [[ $word == -* ]]; then
      _mlx_command "$path" "$word" value
      previous=''
      [[ $kind ]] && previous=$word
    elif [[ $subcommands && " $subcommands " == *" $word "* ]]; then
      path=${path:+$path }$word
    else
      position=$((position + 1))
    fi
  done
  [[ $previous ]] && position=value
  _mlx_command "$path" "$previous" "$position"
  if [[ $cur == --*=* ]]; then
    _mlx_command "$path" "${cur%%=*}" value
    before=${before#"${cur%%=*}="} cur=${cur#*=}
  elif [[ ! $previous && $cur == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
    return
  elif [[ ! $previous && $subcommands ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$subcommands" -- "$cur")
    return
  fi
  case $kind in
    file) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    folder) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    'choice '*) mapfile -t replies < <(compgen -W "${kind#choice }" -- "$cur") ;;
    reference|run|remote|command|setting|operation)
      mapfile -t found < <(mlx completion --words "$kind" --typed="$cur" 2>/dev/null)
      for word in "${found[@]}"; do [[ $word == "$cur"* ]] && replies+=("$word"); done ;;
  esac
  COMPREPLY=("${replies[@]#"$before"}")
  if [[ $kind == reference && $cur == *:* ]]; then
    compopt -o filenames  # bash quotes them
    if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == */ ]]; then compopt -o nospace; fi
  elif [[ ! $quote ]]; then
    for i in "${!COMPREPLY[@]}"; do printf -v "COMPREPLY[i]" %q "${COMPREPLY[i]}"; done
  fi
}
complete -F _mlx mlx
