"""Writes a small encoder as `transformers` would, or computes its states: encoder_folder.py ARCHITECTURE FOLDER [KEY=JSON...],
encoder_folder.py states ARCHITECTURE TOKEN...

Its weights are sines, so that every program computes the same; the states are computed here in double. KEY=JSON sets a key of
config.json, KEY= leaves one out.
"""
import json
import math
import os
import sys

from decoder_folder import values, write_safetensors

VOCABULARY, WIDTH, HIDDEN, HEADS, LAYERS, POSITIONS = 11, 32, 64, 4, 2, 40
BERT = {"vocab_size": VOCABULARY, "hidden_size": WIDTH, "num_attention_heads": HEADS, "intermediate_size": HIDDEN, "num_hidden_layers": LAYERS,
        "max_position_embeddings": POSITIONS, "layer_norm_eps": 1e-12, "hidden_act": "gelu"}
CONFIGS = {
    "BertModel": {**BERT, "model_type": "bert", "type_vocab_size": 2},
    "XLMRobertaForMaskedLM": {**BERT, "model_type": "xlm-roberta", "type_vocab_size": 1, "pad_token_id": 1},
    "DistilBertModel": {"model_type": "distilbert", "vocab_size": VOCABULARY, "dim": WIDTH, "n_heads": HEADS, "hidden_dim": HIDDEN,
                        "n_layers": LAYERS, "max_position_embeddings": POSITIONS, "activation": "gelu"},
}


def names(architecture):
    """The beginning of all names, of those of a block, and those of its parts."""
    if architecture.startswith("Distil"):
        return "", "transformer.layer.", ["attention.q_lin", "attention.k_lin", "attention.v_lin", "attention.out_lin", "sa_layer_norm", "ffn.lin1",
                                          "ffn.lin2", "output_layer_norm"]
    return "roberta." if architecture.endswith("LM") else "", "encoder.layer.", [
        "attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense", "attention.output.LayerNorm",
        "intermediate.dense", "output.dense", "output.LayerNorm"]


def tensors(architecture):
    prefix, layer, parts = names(architecture)
    yield prefix + "embeddings.word_embeddings.weight", [VOCABULARY, WIDTH]
    yield prefix + "embeddings.position_embeddings.weight", [POSITIONS, WIDTH]
    segments = CONFIGS[architecture].get("type_vocab_size", 0)
    if segments:
        yield prefix + "embeddings.token_type_embeddings.weight", [segments, WIDTH]
    shapes = [[WIDTH, WIDTH]] * 4 + [[WIDTH], [HIDDEN, WIDTH], [WIDTH, HIDDEN], [WIDTH]]
    named = [(prefix + "embeddings.LayerNorm", [WIDTH])]
    named += [(f"{prefix}{layer}{i}.{name}", shape) for i in range(LAYERS) for name, shape in zip(parts, shapes)]
    named += [("pooler.dense", [WIDTH, WIDTH])] if architecture == "BertModel" else [("lm_head.dense", [WIDTH, WIDTH])] if prefix else []
    for name, shape in named:
        yield name + ".weight", shape
        yield name + ".bias", shape[:1]


def states(architecture, tokens):
    shapes = dict(tensors(architecture))
    prefix, layer, parts = names(architecture)

    def rows(name):
        shape, numbers = shapes[name], values(name, shapes[name])
        return numbers if len(shape) == 1 else [numbers[i * shape[1]:(i + 1) * shape[1]] for i in range(shape[0])]

    def linear(name, x):
        weight, bias = rows(name + ".weight"), rows(name + ".bias")
        return [[math.fsum(a * b for a, b in zip(row, w)) + b0 for w, b0 in zip(weight, bias)] for row in x]

    def norm(name, x):
        gamma, beta, out = rows(name + ".weight"), rows(name + ".bias"), []
        for row in x:
            mean = math.fsum(row) / WIDTH
            scale = 1 / math.sqrt(math.fsum((a - mean) ** 2 for a in row) / WIDTH + 1e-12)
            out.append([(a - mean) * scale * g + b for a, g, b in zip(row, gamma, beta)])
        return out

    def add(x, y):
        return [[a + b for a, b in zip(*both)] for both in zip(x, y)]

    def attend(q, k, v):
        size, out = WIDTH // HEADS, [[0.0] * WIDTH for _ in q]
        for head in range(HEADS):
            span = slice(head * size, (head + 1) * size)
            for t, query in enumerate(q):
                scores = [math.exp(math.fsum(a * b for a, b in zip(query[span], key[span])) / math.sqrt(size)) for key in k]
                for d in range(span.start, span.stop):
                    out[t][d] = math.fsum(s * value[d] for s, value in zip(scores, v)) / math.fsum(scores)
        return out

    first = CONFIGS[architecture].get("pad_token_id", -1) + 1
    word, position = rows(prefix + "embeddings.word_embeddings.weight"), rows(prefix + "embeddings.position_embeddings.weight")
    x = add([word[token] for token in tokens], [position[first + i] for i in range(len(tokens))])
    if prefix + "embeddings.token_type_embeddings.weight" in shapes:
        x = add(x, [rows(prefix + "embeddings.token_type_embeddings.weight")[0]] * len(tokens))
    x = norm(prefix + "embeddings.LayerNorm", x)
    for i in range(LAYERS):
        q, k, v, projection, norm1, up, down, norm2 = (f"{prefix}{layer}{i}.{part}" for part in parts)
        x = norm(norm1, add(x, linear(projection, attend(linear(q, x), linear(k, x), linear(v, x)))))
        inside = [[a * 0.5 * math.erfc(-a / math.sqrt(2)) for a in row] for row in linear(up, x)]
        x = norm(norm2, add(x, linear(down, inside)))
    return x


def write_tokenizer(folder):
    words = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "the", "mill", "stone", "river", "by", "turns", "old"]
    piece = lambda token: {"SpecialToken": {"id": token, "type_id": 0}}
    template = {"type": "TemplateProcessing", "single": [piece("[CLS]"), {"Sequence": {"id": "A", "type_id": 0}}, piece("[SEP]")],
                "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                "special_tokens": {word: {"id": word, "ids": [words.index(word)], "tokens": [word]} for word in ("[CLS]", "[SEP]")}}
    special = [{"id": i, "content": words[i], "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
               for i in range(4)]
    model = {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
             "vocab": {word: i for i, word in enumerate(words)}}
    normalizer = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}
    json.dump({"version": "1.0", "truncation": None, "padding": None, "added_tokens": special, "normalizer": normalizer,
               "pre_tokenizer": {"type": "BertPreTokenizer"}, "post_processor": template, "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
               "model": model}, open(os.path.join(folder, "tokenizer.json"), "w"))


def main():
    if sys.argv[1] == "states":
        return json.dump(states(sys.argv[2], [int(token) for token in sys.argv[3:]]), sys.stdout)
    architecture, folder, *keys = sys.argv[1:]
    config = {"architectures": [architecture], **CONFIGS[architecture]}
    for key in keys:
        name, value = key.split("=", 1)
        config.pop(name, None)
        if value:
            config[name] = json.loads(value)
    os.makedirs(folder, exist_ok=True)
    json.dump(config, open(os.path.join(folder, "config.json"), "w"))
    write_tokenizer(folder)
    write_safetensors(os.path.join(folder, "model.safetensors"), list(tensors(architecture)), "F32")


main()
