# `mlx show` of a model: its layers, what they cost, and what it takes in memory.
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
# shellcheck source=trained.sh
source "$here/trained.sh"

# conv1: 4 filters of 3x3 and biases; classifier: 6·6·4 inputs, 2 classes. One multiply and add are two FLOP.
expect 0 mlx show clf
has "$out" "layers, for one example"
[[ $out =~ conv1\ +conv2d\ +6x6x4\ +40\ +2\.6\ k ]] || fail "no row of conv1: $out"
[[ $out =~ classifier\ +linear\ +2\ +290\ +576 ]] || fail "no row of the classifier: $out"
[[ $out =~ total\ +330\  ]] || fail "no total: $out"
has "$out" "batch 24, training"
expect 0 mlx show clf --json
same "$(json "[l['name'] for l in d['layers']]")" "['conv1', 'conv1.relu', 'classifier']"
same "$(json "d['layers'][0]['tensors']")" "['conv1.weight', 'conv1.bias']"
same "$(json "d['layers'][0]['output']")" "[-1, 6, 6, 4]"
same "$(json "d['layers'][0]['flops']")" "2592.0"
same "$(json "d['totals']['parameters']")" 330
same "$(json "d['totals']['weight_bytes']")" 1320
same "$(json "d['totals']['training_batch']")" 24
same "$(json "d['totals']['training_activation_bytes'] > d['totals']['activation_bytes'] > 0")" True

# An int8 model was not trained; a dataset has no layers.
mlx quantize clf --calibrate data/bars >/dev/null 2>&1
expect 0 mlx show clf@v2 --json
same "$(json "d['totals']['training_batch'], d['totals']['activation_bytes'] > 0")" "(None, True)"
same "$(json "d['layers'][0]['dtype'][1:]")" 8
expect 0 mlx show data/bars
lacks "$out" "layers"
