"""Compares the states and vectors of imported encoders with those of the PyPI package `transformers`.

usage: encoders_check.py MLX [--tokens N] [--only NAME] [--model FOLDER]... [--keep FOLDER]

Small encoders with random weights are made of every architecture that `mlx import model` takes, with each activation and each
type of weights; each is saved, imported and asked for the states of every token of random sequences (`--logits`), in f32. They
are compared with what `transformers` computes in double: the largest difference may be 1e-4 of the largest state, and 1e-4.
Then texts of many lengths get vectors (`--embed`) with each pooling, all at once; `transformers` computes them with padding
and an attention mask, and pools them here as sentence-transformers does. Folders of that package are written with
modules.json, and must give the same without `--pooling`. With weights of eight bits (`mlx quantize`) the cosine of vectors
may fall to 0.999, with four bits to 0.85. `--model` adds folders that are there already. Exits with 1 where something differs.
It needs: pip install torch transformers tokenizers. No test of ctest runs it: the packages are no dependencies.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

import numpy
import tokenizers
import torch
import transformers

LIMIT = 1e-4
SIZES = {"vocab_size": 521, "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 3, "num_attention_heads": 4,
         "max_position_embeddings": 512}
DISTILLED = {"vocab_size": 521, "dim": 64, "hidden_dim": 160, "n_layers": 3, "n_heads": 4, "max_position_embeddings": 512}


def bert(make=transformers.BertModel, **keys):
    return make, transformers.BertConfig(**{**SIZES, **keys})


def roberta(make=transformers.RobertaModel, **keys):
    return make, transformers.RobertaConfig(**{**SIZES, "max_position_embeddings": 514, "type_vocab_size": 1, **keys})


def xlm(make=transformers.XLMRobertaModel, **keys):
    return make, transformers.XLMRobertaConfig(**{**SIZES, "max_position_embeddings": 514, "type_vocab_size": 1, **keys})


def distilbert(make=transformers.DistilBertModel, **keys):
    return make, transformers.DistilBertConfig(**{**DISTILLED, **keys})


MODELS = {
    "bert": (bert, {}, torch.float32, "cls", True),
    "bert, masked": (bert, {"make": transformers.BertForMaskedLM}, torch.float32, "mean", False),
    "bert, pretraining": (bert, {"make": transformers.BertForPreTraining}, torch.float32, None, False),
    "bert, gelu_new, bf16": (bert, {"hidden_act": "gelu_new"}, torch.bfloat16, "max", False),
    "bert, relu, f16": (bert, {"hidden_act": "relu", "layer_norm_eps": 1e-5}, torch.float16, "mean", True),
    "bert, no segments but one": (bert, {"type_vocab_size": 1}, torch.float32, None, False),
    "roberta": (roberta, {}, torch.float32, "mean", True),
    "roberta, masked": (roberta, {"make": transformers.RobertaForMaskedLM, "pad_token_id": 3}, torch.float32, None, False),
    "xlm-roberta": (xlm, {"layer_norm_eps": 1e-5}, torch.float32, "mean", False),
    "xlm-roberta, masked, bf16": (xlm, {"make": transformers.XLMRobertaForMaskedLM}, torch.bfloat16, None, False),
    "distilbert": (distilbert, {}, torch.float32, "cls", False),
    "distilbert, masked, sines": (distilbert, {"make": transformers.DistilBertForMaskedLM, "sinusoidal_pos_embds": True}, torch.float32,
                                  "last", True),
}
POOLINGS = {"cls": "pooling_mode_cls_token", "mean": "pooling_mode_mean_tokens", "max": "pooling_mode_max_tokens", "last": "pooling_mode_lasttoken"}
WORDS = ["river", "mill", "stone", "turns", "slowly", "under", "the", "old", "bridge", "wheel", "water", "grain", "flour", "night", "2024", "café",
         "straße", "naïve", "数据", "данные", "!", "...", "(open)", "semi-final"]


def texts(count):
    draw = random.Random(5)
    return [" ".join(draw.choice(WORDS) for _ in range(draw.choice([1, 2, 3, 5, 8, 13, 14, 15, 16, 29, 31, 32, 60, 64, 120, 250]))) for _ in range(count)]


def make(kind, keys, dtype, pooling, unit, folder):
    """Weights far from their usual start, so that every tensor matters: norms and biases too."""
    make_class, config = kind(**keys)
    model = make_class(config)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 1:
                weight.copy_(torch.randn_like(weight) * 0.2 + (1.0 if "norm" in name.lower() and name.endswith("weight") else 0.0))
            else:
                weight.normal_(0, weight.shape[-1] ** -0.5 * 1.5)
    model.to(dtype).save_pretrained(folder)
    special = ["[CLS]", "[SEP]", "[UNK]", "[MASK]"]
    special.insert(config.pad_token_id or 0, "<pad>")  # which no text has
    tokenizer = tokenizers.BertWordPieceTokenizer(lowercase=True)
    tokenizer.train_from_iterator(texts(300), vocab_size=500, min_frequency=1, special_tokens=special, show_progress=False)
    tokenizer.post_processor = tokenizers.processors.BertProcessing(*((name, special.index(name)) for name in ("[SEP]", "[CLS]")))
    tokenizer.save(os.path.join(folder, "tokenizer.json"))
    if pooling is None:
        return
    modules = ["Transformer", "Pooling"] + (["Normalize"] if unit else [])
    paths = {"Transformer": "", "Pooling": "1_Pooling", "Normalize": "2_Normalize"}
    json.dump([{"idx": i, "name": str(i), "path": paths[kind], "type": f"sentence_transformers.models.{kind}"} for i, kind in enumerate(modules)],
              open(os.path.join(folder, "modules.json"), "w"))
    os.makedirs(os.path.join(folder, "1_Pooling"), exist_ok=True)
    json.dump({"word_embedding_dimension": 64, **{key: name == pooling for name, key in POOLINGS.items()}},
              open(os.path.join(folder, "1_Pooling", "config.json"), "w"))
    json.dump({"max_seq_length": 400, "do_lower_case": False}, open(os.path.join(folder, "sentence_bert_config.json"), "w"))


def pooled(states, mask, how):
    counts = mask.sum(1)
    if how == "cls":
        return states[:, 0]
    if how == "last":
        return states[torch.arange(len(states)), counts - 1]
    if how == "mean":
        return (states * mask[..., None]).sum(1) / counts[:, None]
    return states.masked_fill(mask[..., None] == 0, -torch.inf).max(1).values


def compare(mlx, name, folder, place, count, pooling, unit):
    def run(*arguments):
        return subprocess.run([mlx, "-C", place, *arguments], check=True, capture_output=True)

    imported = f"m{len(os.listdir(place))}"
    run("import", "model", folder, "--name", imported)
    out = os.path.join(place, imported + ".npy")
    model = transformers.AutoModel.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager").eval()
    draw = torch.Generator().manual_seed(7)
    # Without the padding token, which RoBERTa would take for padding.
    padding = model.config.pad_token_id or 0
    most, largest = 0.0, 0.0
    for length in (1, 2, 15, 16, 17, 33, count):
        tokens = torch.randint(padding + 1, model.config.vocab_size, (length,), generator=draw)
        run("predict", imported, "--tokens", " ".join(map(str, tokens.tolist())), "--logits", out)
        with torch.no_grad():
            exact = model(tokens[None]).last_hidden_state[0].numpy()
        ours = numpy.load(out)
        assert ours.shape == exact.shape and ours.dtype == numpy.float32, (ours.shape, exact.shape)
        most, largest = max(most, float(abs(ours - exact).max())), max(largest, float(abs(exact).max()))
    tokenizer = tokenizers.Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    lines = texts(60)
    source = os.path.join(place, "texts.txt")
    open(source, "w").write("\n".join(lines) + "\n")
    encoded = [each.ids for each in tokenizer.encode_batch(lines)]
    width = max(map(len, encoded))
    ids = torch.tensor([each + [padding] * (width - len(each)) for each in encoded])
    mask = torch.tensor([[1] * len(each) + [0] * (width - len(each)) for each in encoded])
    with torch.no_grad():
        states = model(ids, attention_mask=mask).last_hidden_state
    vectors, worst = {}, 0.0
    for how in POOLINGS:
        run("predict", imported, source, "--pooling", how, "--embed", out)
        exact = pooled(states, mask, how)
        if unit:
            exact = torch.nn.functional.normalize(exact, dim=-1)
        vectors[how] = numpy.load(out)
        worst = max(worst, float(abs(vectors[how] - exact.numpy()).max() / abs(exact).max()))
    run("predict", imported, source, "--embed", out)
    by_default = bool((numpy.load(out) == vectors[pooling or "mean"]).all())
    cosines = []
    for to in ("int8", "int4"):
        run("quantize", imported + "@v1", "--to", to, "--point")
        run("predict", imported, source, "--pooling", "mean", "--embed", out)
        small, whole = numpy.load(out), vectors["mean"]
        cosines.append(float(((small * whole).sum(1) / numpy.linalg.norm(small, axis=1) / numpy.linalg.norm(whole, axis=1)).min()))
    good = most <= LIMIT * max(1.0, largest) and worst <= LIMIT and by_default and cosines[0] > 0.999 and cosines[1] > 0.85
    print(f"{name:28} {most:10.2e} {largest:9.2f} {worst:10.2e} {cosines[0]:9.5f} {cosines[1]:9.5f}{'' if good else '  DIFFERS'}", flush=True)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mlx")
    parser.add_argument("--tokens", type=int, default=300)
    parser.add_argument("--only", default="")
    parser.add_argument("--model", action="append", default=[])
    parser.add_argument("--keep", help="a folder for the models that are made")
    options = parser.parse_args()
    mlx = os.path.abspath(options.mlx)
    torch.manual_seed(1)
    torch.set_num_threads(2)
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    good = True
    print(f"transformers {transformers.__version__}, torch {torch.__version__}, up to {options.tokens} tokens")
    print(f"{'model':28} {'difference':>10} {'largest':>9} {'vectors':>10} {'int8 cos':>9} {'int4 cos':>9}")
    with tempfile.TemporaryDirectory() as scratch:
        place = os.path.join(scratch, "repository")
        os.mkdir(place)
        subprocess.run([mlx, "-C", place, "init"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for name, (kind, keys, dtype, pooling, unit) in MODELS.items():
            if options.only not in name:
                continue
            folder = os.path.join(os.path.abspath(options.keep or scratch), name.replace(" ", "-").replace(",", ""))
            make(kind, keys, dtype, pooling, unit, folder)
            good = compare(mlx, name, folder, place, options.tokens, pooling, unit) and good
        for folder in options.model:
            good = compare(mlx, os.path.basename(folder.rstrip("/")), os.path.abspath(folder), place, options.tokens, None, False) and good
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
