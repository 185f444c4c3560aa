# Memory of a training through the real binary: predicted before the first step, met, and capped.
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"

# shellcheck source=memory_configs.sh
source "$here/memory_configs.sh"
mlx init >/dev/null 2>&1
mlx add data/words data/noise >/dev/null 2>&1
mlx commit -m data >/dev/null

# The peak that is said before the first step is the one that the process comes to, and stands with the run. What an
# instrumented program takes is not what is planned.
text large gpt2 4 128 128 48 ''
expect 0 mlx train -c large.toml --json
peak=$(json "d['summary']['memory']['peak']") arena=$(json "d['summary']['memory']['arena']") id=$(json "d['digest']") run=$(json "d['run']")
if ! grep -q __asan_init "$mlx_binary"; then
  python3 -c "import sys; sys.exit(not 0.95 <= $(json "d['summary']['peak_memory']") / $peak <= 1.05)" ||
    fail "predicted $peak, came to $(json "d['summary']['peak_memory']")"
  same "$((2 * arena > peak))" 1
fi
expect 0 mlx show "run:$run"
has "$out" "memory"

# More than any machine has, said before any of it is taken.
text vast gpt2 96 16384 128 8 ''
error 2 "and this machine has" mlx train -c vast.toml
has "$err" "--memory SIZE"

# A cap below the peak: parts are recomputed, the model is the same, and the cap holds.
cap=$((peak - arena / 3))
expect 0 mlx train -c large.toml --force --memory "$cap" --json
same "$(json "d['digest'] == '$id', d['summary']['memory']['peak'] <= $cap, d['summary']['memory']['recomputed'] > 0")" "(True, True, True)"
has "$err" "memory: "
has "$err" " at the peak; weights and optimizer "
has "$err" "recomputed in backward"
grep -q __asan_init "$mlx_binary" || same "$(json "d['summary']['peak_memory'] <= 1.05 * $cap")" True
expect 0 mlx train -c large.toml --memory 1KiB
has "$out" "unchanged"

# The same for every kind of network, with a cap that wants all that there is: found by one that nothing can meet.
smallest() { # CONFIG: what it says that it needs
  error 2 "1.0 KiB are allowed" mlx train -c "$1" --force --memory 1KiB
  has "$err" "--memory"
  has "$err" "accumulate = "
  sed -n 's/.*--memory \([0-9]*MiB\).*/\1/p' <<<"$err"
}
text small llama 2 32 64 32 'accumulate = 2
clip = 1.0'
images cnn 'family = "cnn"
layers = [{ conv = 16, norm = "batch" }, { conv = 16, norm = "batch" }, { conv = 16, norm = "batch" }, { conv = 16, norm = "batch" }, { pool = "max", size = 2 }, { conv = 16, norm = "batch" }, { conv = 16 }, { pool = "global" }, { dropout = 0.2 }]'
images resnet 'family = "resnet"
depth = 20
width = 0.5
stochastic_depth = 0.2'
images mobilenet 'family = "mobilenet_v2"
halvings = 2
width = 0.25'
images mlp 'family = "mlp"
hidden = [64, 64]'
for config in small cnn resnet mobilenet mlp; do
  expect 0 mlx train -c "$config.toml" --json
  id=$(json "d['digest']")
  expect 0 mlx train -c "$config.toml" --force --memory "$(smallest "$config.toml")" --json
  same "$(json "d['digest']")" "$id"
  # An instrumented program is so large that the room in the cap is more than these want.
  [ "$config" = mlp ] || grep -q __asan_init "$mlx_binary" || same "$(json "d['summary']['memory']['recomputed'] > 0")" True
done

# bug: of small networks on rows more than half was said to be taken that never was, and a profile, or thousands of packs
# of checkpoints, took what nobody had said.
mkdir data/rows
python3 -c "
import random
random.seed(1)
print('a,b,c,class')
for i in range(400): print(f'{random.random():.3f},{random.random():.3f},{random.random():.3f},{\"xyz\"[i % 3]}')" >data/rows/train.csv
mlx add data/rows >/dev/null 2>&1
printf '[data]\ndataset = "data/rows"\ntarget = "class"\n[model]\nname = "rows"\nfamily = "mlp"\nhidden = [16]\n[train]\nepochs = 30\nbatch = 32\ncheckpoint_every = "1 steps"\n' >rows.toml
for how in "" --profile; do
  # shellcheck disable=SC2086
  expect 0 mlx train -c rows.toml --force --json $how
  grep -q __asan_init "$mlx_binary" || same "$(json "abs(d['summary']['peak_memory'] - d['summary']['memory']['peak']) < 8 << 20")" True
done

# bug: the expected memory left out what the evaluation of many classes keeps.
python3 -c "
import random
random.seed(2)
print('a,b,class')
for i in range(30000): print(f'{random.random():.3f},{random.random():.3f},c{i % 300}')" >data/rows/train.csv
mlx add data/rows >/dev/null 2>&1
sed -e 's/epochs = 30/epochs = 1/' -e '/checkpoint_every/d' -e 's/target = "class"/target = "class"\nhold_out = 0.8/' rows.toml >classes.toml
expect 0 mlx train -c classes.toml --json
grep -q __asan_init "$mlx_binary" || same "$(json "abs(d['summary']['peak_memory'] - d['summary']['memory']['peak']) < 8 << 20")" True

# IDX images that do not fit go through a temporary file; the bits are the same.
mkdir data/idx
python3 -c "
import random, struct
random.seed(3)
count, side = 20000, 56
with open('data/idx/train-images.idx3-ubyte', 'wb') as out:
    out.write(struct.pack('>4B3I', 0, 0, 8, 3, count, side, side) + random.randbytes(count * side * side))
with open('data/idx/train-labels.idx1-ubyte', 'wb') as out:
    out.write(struct.pack('>4BI', 0, 0, 8, 1, count) + bytes(i % 10 for i in range(count)))"
mlx add data/idx >/dev/null 2>&1
printf '[data]\ndataset = "data/idx"\nhold_out = 500\naugment = { shift = 2 }\n[model]\nname = "idx"\nfamily = "mlp"\nhidden = [8]\n[train]\nepochs = 2\nbatch = 64\n' >idx.toml
expect 0 mlx train -c idx.toml --json
id=$(json "d['digest']") whole=$(json "d['summary']['memory']['peak']")
expect 0 mlx train -c idx.toml --force --memory 80MiB --json
same "$(json "d['digest'] == '$id', d['summary']['memory']['peak'] <= 80 << 20 < $whole")" "(True, True)"
grep -q __asan_init "$mlx_binary" || same "$(json "d['summary']['peak_memory'] <= 1.05 * (80 << 20)")" True

# A shuffle buffer is another order, the same from the file.
expect 0 mlx train -c idx.toml --set data.shuffle_buffer=300 --json
buffered=$(json "d['digest']")
[ "$buffered" != "$id" ] || fail "the buffer changed nothing"
expect 0 mlx train -c idx.toml --set data.shuffle_buffer=300 --force --memory 80MiB --json
same "$(json "d['digest']")" "$buffered"
error 2 "shuffle_buffer" mlx train -c idx.toml --set data.shuffle_buffer=0

# Killed and resumed under a cap.
killed_training 16 -c resnet.toml --force --memory 2GiB
expect 0 mlx train -c resnet.toml --json
id=$(json "d['digest']")
expect 0 mlx train -c resnet.toml --resume "$run" --memory "$(smallest resnet.toml)" --json
same "$(json "d['digest']")" "$id"

for size in lots -1 0 4Gib 1e99GiB; do error 2 "--memory" mlx train -c mlp.toml --memory "$size"; done
