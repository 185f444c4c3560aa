"""Loads what `mlx export model` writes with the programs that it is for: `transformers`, `llama-cpp-python`, `gguf` and `peft`.

usage: export_check.py MLX [--tokens N] [--only NAME] [--keep FOLDER]

The models are those of decoders_check.py, in every architecture that mlx imports, those that `mlx train` makes, with every kind of
tokenizer, and quantized ones. Each is exported and compared with the logits that mlx itself computes behind every token of a
random sequence, as shares of the largest logit: in f32 the largest difference may be 1e-4. The columns are

  tensors  of the Hugging Face folder that are, bit for bit, those that the model was imported from; of Gemma's norms 1 more than
           the number must be the same in f32
  hf       the logits of `transformers` in f32
  llama    those of llama.cpp, with a cache in f32, which rounds in its own ways: 1e-3 is allowed for GELU, whose table is in f16
           there; 0.01 and 0.05 for weights in f16 and bf16, to which it rounds activations too; and 0.1 for integers
  again    whether the GGUF file, imported again, gives the logits of the model, bit for bit
  tokens   whether both find the tokens of mlx in lines of several scripts

GGUF files of gguf_check.py are imported and exported: every tensor must have the bytes that it had, or the numbers where its type
became another, llama.cpp must find the same tokens, and `transformers` the same logits in a folder. Tokenizers with added tokens and
chat templates, and a tokenizer.model of SentencePiece, are compared through llama.cpp. Adapters are compared through `peft` on the exported base. Exits with 1 where something differs. It needs: pip install torch
transformers peft gguf llama-cpp-python sentencepiece tokenizers. No test of ctest runs it: the packages are no dependencies.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import decoders_check
import gguf
import gguf_check
import llama_cpp
import numpy
import peft
import safetensors.torch
import sentencepiece
import tokenizers
import torch
import transformers

LINES = ["the old mill turns", "  two  blanks and a tab\t.", "Größe, naïveté, Ελλάδα, привет, 中文字, 😀!", "x = 12345 + 67;\n\n\nend", "I'LL don't"]
# What llama.cpp has no form for.
REFUSED = {"qwen2, windows": "windows of 50 tokens", "qwen3, yarn": "YaRN with an attention factor", "gemma2": "scores divided by",
           "gemma2, wide window, bf16": "scores divided by", "gemma3": "scores divided by", "gemma3, linear rope, bf16": "scores divided by",
           "qwen3, tied, bf16, shards": "biases of attention"}
WINDOWS = ("mistral, window", "phi3, window, f16")  # llama.cpp does not apply them


def gemma2(**keys):
    return decoders_check.gemma2(**{"query_pre_attn_scalar": 24, **keys})


def gemma3(**keys):
    return decoders_check.gemma3(**{"query_pre_attn_scalar": 24, **keys})


MODELS = decoders_check.MODELS | {
    "gemma2, usual scores": (gemma2, {"sliding_window": 33, "attn_logit_softcapping": 2.0, "final_logit_softcapping": 5.0}, torch.float32, "5GB"),
    "gemma2, usual scores, bf16": (gemma2, {"sliding_window": 4096}, torch.bfloat16, "100KB"),
    "gemma3, usual scores": (gemma3, {"sliding_window": 21}, torch.float32, "5GB"),
    "gemma3, usual, linear, bf16": (gemma3, {"sliding_window": 64, "rope_parameters": {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}}, torch.bfloat16, "5GB"),
    "qwen3, bf16": (decoders_check.qwen3, {"num_key_value_heads": 1, "tie_word_embeddings": True}, torch.bfloat16, "100KB"),
}


class Place:
    """A repository, and mlx in it."""

    def __init__(self, mlx, folder, count):
        self.mlx, self.folder, self.count = mlx, folder, count
        os.mkdir(folder)
        self.run("init")

    def run(self, *arguments, fails=None, text=None):
        done = subprocess.run([self.mlx, "-C", self.folder, *arguments], capture_output=True, text=True, input=text)
        if (done.returncode != 0) != bool(fails) or (fails and fails not in done.stderr):
            sys.exit(f"mlx {' '.join(arguments)}: {done.returncode}: {done.stderr}")
        return done.stdout

    def path(self, name):
        return os.path.join(self.folder, name)

    def logits(self, model, tokens):
        self.run("predict", model, "--tokens", " ".join(map(str, tokens)), "--logits", "logits.npy")
        return numpy.load(self.path("logits.npy"))

    def vocabulary(self, model):
        return json.loads(self.run("predict", model, "--tokens", "0", "--logits", "logits.npy", "--json"))["vocabulary"]


def tokens_for(vocabulary, count):
    return torch.randint(0, vocabulary, (count,), generator=torch.Generator().manual_seed(7)).tolist()


def of_transformers(model, tokens):
    with torch.no_grad():
        return model.float().eval()(torch.tensor([tokens])).logits[0].numpy()


def of_folder(folder, tokens):
    return of_transformers(transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager"), tokens)


def of_llama(path, tokens):
    llama = llama_cpp.Llama(path, n_ctx=512, logits_all=True, verbose=False, n_threads=2, flash_attn=False, type_k=0, type_v=0)
    llama.eval(tokens)
    return numpy.array(llama.scores[:len(tokens)]), llama


def off(ours, theirs):
    return float(abs(ours - theirs).max() / abs(ours).max())


def held(folder):
    out = {}
    for name in os.listdir(folder):
        if name.endswith(".safetensors"):
            out |= safetensors.torch.load_file(os.path.join(folder, name))
    return out


def unprefixed(tensors):
    return {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}


def same_tensors(before, after):
    """How many are the same, or exits."""
    before, after = unprefixed(held(before)), unprefixed(held(after))
    if before.keys() != after.keys():
        sys.exit(f"other tensors: {before.keys() ^ after.keys()}")
    for name, tensor in before.items():
        one_more = tensor.dim() == 1 and torch.equal(1 + tensor.float(), 1 + after[name].float())
        if tensor.dtype != after[name].dtype or not (torch.equal(tensor, after[name]) or one_more):
            sys.exit(f"{name}: other numbers")
    return len(before)


def same_tokens(place, model, folder, llama):
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    for line in LINES:
        try:
            ours = place.run("tokenizer", "encode", model, text=line).split()
        except SystemExit:
            continue  # a character that the model does not know
        for found in ([str(token) for token in theirs(line)["input_ids"]],
                      [str(token) for token in llama.tokenize(line.encode(), add_bos=False, special=True)]):
            if found != ours:
                print(f"  {line!r}: {found} instead of {ours}")
                return False
    return True


def report(name, tensors, hf, llama, limit, again, tokens):
    good = hf <= 1e-4 and llama <= limit and again and tokens
    print(f"{name:30} {tensors:8} {hf:10.2e} {llama:10.2e} {'same' if again else 'OTHER':>6} {'same' if tokens else 'OTHER':>6}"
          f"{'' if good else '  DIFFERS'}", flush=True)
    return good


def limit_of(name):
    if "f16" in name:
        return 0.05 if "bf16" in name else 0.01
    return 1e-3 if "gpt2" in name or "gemma" in name else 1e-4


def imported(place, name, folder):
    """A folder of transformers, out again in both forms."""
    model = f"m{len(os.listdir(place.folder))}"
    place.run("import", "model", folder, "--name", model)
    vocabulary = json.load(open(os.path.join(folder, "config.json")))["vocab_size"]
    tokens = tokens_for(vocabulary, place.count)
    ours = place.logits(model, tokens)
    place.run("export", "model", model, "--format", "hf", "--out", f"{model}.hf", "--shard", "100KiB")
    count, hf = same_tensors(folder, place.path(f"{model}.hf")), off(ours, of_folder(place.path(f"{model}.hf"), tokens))
    export = ("export", "model", model, "--format", "gguf", "--out", f"{model}.gguf")
    if name in REFUSED:
        place.run(*export, fails=REFUSED[name])
        print(f"{name:30} {count:8} {hf:10.2e} refused: {REFUSED[name]}", flush=True)
        return hf <= 1e-4
    place.run(*export)
    place.run("import", "model", f"{model}.gguf", "--name", f"{model}.again")
    again = numpy.array_equal(ours, place.logits(f"{model}.again", tokens))
    near = tokens[:25] if name in WINDOWS else tokens
    llama = off(ours[:len(near)], of_llama(place.path(f"{model}.gguf"), near)[0])
    return report(name, count, hf, llama, limit_of(name), again, True)


TEXT = "".join(f"the mill by the river turns {i} old stones; naïve Größe\n" for i in range(400))
TRAIN = """[data]
dataset = "data/words"
tokenizer = "{tokenizer}"
{more}
[model]
name = "{name}"
{model}
[train]
epochs = 1
batch = 16
"""
SIZES = 'layers = 2\nwidth = 128\nheads = 4\ncontext = 256\nfamily = "{}"'
TRAINED = {
    "gpt2 bytes": (SIZES.format("gpt2"), "bytes", ""),
    "gpt2 bpe": (SIZES.format("gpt2"), "bpe", "vocab = 300"),
    "llama chars": (SIZES.format("llama") + "\nkv_heads = 2", "chars", ""),
    "llama bpe tied": (SIZES.format("llama") + "\ntie = true", "bpe", "vocab = 280"),
}


def train(place, name, model, tokenizer, more):
    with open(place.path("train.toml"), "w") as f:
        f.write(TRAIN.format(name=name, model=model, tokenizer=tokenizer, more=more))
    place.run("train")


def exported(place, name, model, limit, dtype=()):
    tokens = tokens_for(place.vocabulary(model), min(place.count, 200))
    ours = place.logits(model, tokens)
    folder, path = place.path(f"{model}.hf"), place.path(f"{model}.gguf")
    place.run("export", "model", model, "--format", "hf", "--out", folder, *dtype)
    place.run("export", "model", model, "--format", "gguf", "--out", path)
    place.run("import", "model", path, "--name", f"{model}.again")
    again = numpy.array_equal(ours, place.logits(f"{model}.again", tokens))
    theirs, llama = of_llama(path, tokens)
    exact = of_folder(folder, tokens)
    hf = off(ours, exact) if not dtype else 0.0
    return report(name, len(held(folder)), hf, max(off(exact, theirs), off(ours, exact)), limit, again, same_tokens(place, model, folder, llama))


def quantized(place, name, model, bits, group):
    """Integers and scales as mlx holds them; the numbers of the file, as `gguf` expands them, are those of the folder."""
    version = json.loads(place.run("quantize", f"{model}@v1", "--to", f"int{bits}", "--group", str(group), "--json"))["model"]
    short = f"{model}-int{bits}-{group}"
    tokens = tokens_for(256, min(place.count, 200))
    ours = place.logits(version, tokens)
    folder, path = place.path(f"{short}.hf"), place.path(f"{short}.gguf")
    place.run("export", "model", version, "--format", "hf", "--out", folder, fails="--dtype f32 writes the numbers")
    place.run("export", "model", version, "--format", "hf", "--out", folder, "--dtype", "f32")
    place.run("export", "model", version, "--format", "gguf", "--out", path)
    place.run("import", "model", path, "--name", f"{short}.again")
    again = numpy.array_equal(ours, place.logits(f"{short}.again", tokens)) if group == 32 else True
    wanted = {8: gguf.GGMLQuantizationType.Q8_0, 4: gguf.GGMLQuantizationType.Q4_0}[bits]
    reader, numbers, count = gguf.GGUFReader(path), held(folder), 0
    for tensor in reader.tensors:
        if tensor.tensor_type == wanted and "down" in tensor.name:
            block = tensor.name.split(".")[1]
            theirs = numbers[f"model.layers.{block}.mlp.down_proj.weight"].numpy()
            if not numpy.array_equal(theirs, gguf.quants.dequantize(tensor.data, tensor.tensor_type)):
                sys.exit(f"{short}: {tensor.name}: other numbers")
            count += 1
    if count == 0:
        sys.exit(f"{short}: no layer in {wanted.name}")
    exact, (theirs, llama) = of_folder(folder, tokens), of_llama(path, tokens)
    return report(name, count, 0.0, max(off(exact, theirs), off(ours, exact)), 0.1, again, same_tokens(place, model, folder, llama))


def same_file(before, after):
    """How many tensors have the same bytes, or exits; those of other types have the same numbers."""
    readers = [{tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors} for path in (before, after)]
    if readers[0].keys() != readers[1].keys():
        sys.exit(f"{after}: other tensors: {readers[0].keys() ^ readers[1].keys()}")
    same = 0
    for name, tensor in readers[0].items():
        made = readers[1][name]
        if made.tensor_type == tensor.tensor_type and numpy.array_equal(made.data, tensor.data):
            same += 1
        elif not numpy.array_equal(*(gguf.quants.dequantize(each.data, each.tensor_type) for each in (tensor, made))):
            sys.exit(f"{after}: {name}: other numbers")
    return same


def of_file(place, name, arch, arguments):
    """A file of llama.cpp, out again in both forms."""
    model = f"f{len(os.listdir(place.folder))}"
    path, made, folder = (place.path(f"{model}{end}") for end in (".gguf", ".again.gguf", ".hf"))
    _, vocabulary = gguf_check.write(path, arch, **arguments)
    place.run("import", "model", path, "--name", model)
    tokens = tokens_for(vocabulary, place.count)
    place.run("export", "model", model, "--format", "gguf", "--out", made)
    place.run("export", "model", model, "--format", "hf", "--dtype", "f32", "--out", folder)
    count = same_file(path, made)
    (before, old), (after, new) = of_llama(path, tokens), of_llama(made, tokens)
    ours, exact = place.logits(model, tokens), of_folder(folder, tokens)
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    same = all(old.tokenize(line.encode(), add_bos=True, special=True) == new.tokenize(line.encode(), add_bos=True, special=True)
               for line in LINES + ["<s>special</s> [INST]", "<|end|> x"])
    for line in LINES:
        ids = place.run("tokenizer", "encode", model, text=line).split()
        same = same and [str(token) for token in theirs(line, add_special_tokens=False)["input_ids"]] == ids
    plain = name.split()[1] in ("F32", "F16", "BF16")
    llama, hf = off(before, after), off(ours, exact)
    good = hf <= (1e-4 if plain else 0.1) and llama <= 0.1 and same
    print(f"{name:30} {count:8} {hf:10.2e} {llama:10.2e} {'':6} {'same' if same else 'OTHER':>6}{'' if good else '  DIFFERS'}", flush=True)
    return good


TEMPLATE = "{{ bos_token }}{% for message in messages %}<|start|>{{ message['content'] }}<|eot_id|>{% endfor %}"


def byte_level_folder(folder):
    """As Llama 3: added tokens, a beginning, two ends, a chat template."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(ignore_merges=True))
    pattern = next(cut for cut in open(os.path.join(os.path.dirname(__file__), "../../src/nn/gguf_tokenizer.cpp")).read().split('R"(')[1:]).split(')";')[0]
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([
        tokenizers.pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated"),
        tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    special = ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", "<|start|>"]
    tokenizer.train_from_iterator([TEXT], tokenizers.trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, show_progress=False, initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.add_tokens([tokenizers.AddedToken("[TOOL]", normalized=False)])
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single=f"{special[0]} $A", special_tokens=[(special[0], tokenizer.token_to_id(special[0]))])
    tokenizer.save(os.path.join(folder, "tokenizer.json"))
    json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": special[0], "eos_token": special[2], "chat_template": TEMPLATE},
              open(os.path.join(folder, "tokenizer_config.json"), "w"))
    json.dump({"bos_token_id": 0, "eos_token_id": [1, 2]}, open(os.path.join(folder, "generation_config.json"), "w"))


def sentencepiece_folder(folder, prefix):
    """As Llama 2: a tokenizer.model, with bytes and what a user defined."""
    with open(os.path.join(folder, "text.txt"), "w") as f:
        f.write(TEXT)
    sentencepiece.SentencePieceTrainer.train(
        input=os.path.join(folder, "text.txt"), model_prefix=os.path.join(folder, "tokenizer"), vocab_size=420, model_type="bpe", byte_fallback=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=prefix, minloglevel=2, user_defined_symbols=["[INST]"])
    os.remove(os.path.join(folder, "tokenizer.vocab"))
    os.remove(os.path.join(folder, "text.txt"))
    json.dump({"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "add_bos_token": True},
              open(os.path.join(folder, "tokenizer_config.json"), "w"))


TOKENIZERS = {
    "as Llama 3": byte_level_folder,
    "tokenizer.model": lambda folder: sentencepiece_folder(folder, True),
    "tokenizer.model, no prefix": lambda folder: sentencepiece_folder(folder, False),
}


def tokenizer_of(place, name, write):
    model = f"t{len(os.listdir(place.folder))}"
    folder, path = place.path(f"{model}.in"), place.path(f"{model}.gguf")
    decoders_check.make(decoders_check.llama, {"num_key_value_heads": 2}, torch.float32, "5GB", folder)
    write(folder)
    place.run("import", "model", folder, "--name", model)
    place.run("export", "model", model, "--format", "hf", "--out", f"{model}.hf")
    place.run("export", "model", model, "--format", "gguf", "--out", path)
    for kept in os.listdir(folder):
        if not kept.endswith(".safetensors") and open(place.path(f"{model}.hf/{kept}"), "rb").read() != open(os.path.join(folder, kept), "rb").read():
            sys.exit(f"{name}: another {kept}")
    llama = llama_cpp.Llama(path, vocab_only=True, verbose=False)
    good, begins = True, llama.metadata.get("tokenizer.ggml.add_bos_token") == "true"
    # llama.cpp puts the blank of a tokenizer.model behind added tokens too, and not before one that begins a text.
    for line in LINES + (["[INST] the mill [TOOL]<|eot_id|>"] if name != "tokenizer.model" else []):
        ours = place.run("tokenizer", "encode", model, text=line).split()
        theirs = [str(token) for token in llama.tokenize(line.encode(), add_bos=True, special=True)]
        if not begins or theirs[0] != str(llama.token_bos()) or ours not in (theirs, theirs[1:]):
            print(f"  {line!r}: {theirs} instead of {ours}")
            good = False
    if "Llama 3" in name:
        good = good and llama.metadata.get("tokenizer.chat_template") == TEMPLATE and llama.token_eos() == 2
        good = good and llama.metadata.get("tokenizer.ggml.eot_token_id") == "1"
    print(f"{name:30} {'':8} {'':10} {'':10} {'':6} {'same' if good else 'OTHER':>6}", flush=True)
    return good


def adapters(place, name, base, targets):
    """`peft` on the exported base, mlx's own logits, and `transformers` with the adapters merged."""
    lora = f'init = "{base}"\nlora = {{ rank = 3, alpha = 7, targets = {json.dumps(targets)} }}'
    with open(place.path("train.toml"), "w") as f:
        f.write(TRAIN.format(name=name, model=lora, tokenizer="bytes", more="").replace('tokenizer = "bytes"\n', "").replace("[train]\n", "[train]\nlearning_rate = 0.02\n"))
    place.run("train")
    tokens = tokens_for(place.vocabulary(base), min(place.count, 200))
    ours, folder = place.logits(name, tokens), place.path(f"{name}.base")
    place.run("export", "model", base, "--format", "hf", "--out", folder, "--dtype", "f32")
    place.run("export", "model", name, "--format", "peft", "--out", f"{name}.peft", "--base", folder)
    place.run("export", "model", name, "--format", "hf", "--out", f"{name}.merged", "--dtype", "f32")
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    before = of_transformers(model, tokens)
    adapted = of_transformers(peft.PeftModel.from_pretrained(model, place.path(f"{name}.peft")), tokens)
    automatic = of_transformers(peft.AutoPeftModelForCausalLM.from_pretrained(place.path(f"{name}.peft"), dtype=torch.float32), tokens)
    merged = of_folder(place.path(f"{name}.merged"), tokens)
    far = max(off(ours, adapted), off(ours, merged), off(ours, automatic))
    good = far <= 1e-4 < off(ours, before)
    count = len(held(place.path(f"{name}.peft")))
    print(f"{name:30} {count:8} {far:10.2e} without: {off(ours, before):.2e}{'' if good else '  DIFFERS'}", flush=True)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mlx")
    parser.add_argument("--tokens", type=int, default=300)
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", help="a folder for what is made")
    options = parser.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(2)
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    print(f"transformers {transformers.__version__}, llama-cpp-python {llama_cpp.__version__}, peft {peft.__version__}")
    print(f"{'model':30} {'tensors':>8} {'hf':>10} {'llama':>10} {'again':>6} {'tokens':>6}")
    good = True
    with tempfile.TemporaryDirectory() as scratch:
        scratch = os.path.abspath(options.keep or scratch)
        place = Place(os.path.abspath(options.mlx), os.path.join(scratch, "repository"), options.tokens)
        for name, (kind, keys, dtype, shard) in MODELS.items():
            if options.only in name:
                folder = os.path.join(scratch, name.replace(" ", "-").replace(",", ""))
                decoders_check.make(kind, keys, dtype, shard, folder)
                good = imported(place, name, folder) and good
        for name, (arch, arguments) in gguf_check.MODELS.items():
            if options.only in f"file {name}":
                good = of_file(place, name, arch, arguments) and good
        for name, write in TOKENIZERS.items():
            if options.only in f"tokenizers, {name}":
                good = tokenizer_of(place, name, write) and good
        os.makedirs(place.path("data/words"))
        with open(place.path("data/words/train.txt"), "w") as f:
            f.write(TEXT)
        place.run("add", "data/words")
        for name, (model, tokenizer, more) in TRAINED.items():
            if options.only in f"trained {name}":
                train(place, name.replace(" ", "-"), model, tokenizer, more)
                good = exported(place, f"trained {name}", name.replace(" ", "-"), limit_of(name)) and good
        if options.only in "quantized":
            train(place, "whole", SIZES.format("llama"), "bytes", "")
            for bits, group in ((8, 32), (4, 32), (8, 64), (4, 128)):
                good = quantized(place, f"quantized int{bits}, groups of {group}", "whole", bits, group) and good
        if options.only in "adapters":
            train(place, "base", SIZES.format("llama"), "bytes", "")
            train(place, "base-gpt2", SIZES.format("gpt2"), "bytes", "")
            good = adapters(place, "lora-llama", "base@v1", ["*.attention.*"]) and good
            good = adapters(place, "lora-one-block", "base@v1", ["block1.*"]) and good
            good = adapters(place, "lora-gpt2", "base-gpt2@v1", ["*.attention.*", "*.mlp.*"]) and good
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
