"""Compares what `mlx quantize --to q2_k ... q6_k` loses with what llama.cpp's own quantizer loses on the same weights.

usage: blocks_check.py MLX

A small Llama with random weights, of normal distribution in one layer and with heavy tails in another, is quantized by
mlx and exported as GGUF. The package `gguf` expands the file, and ggml_quantize_chunk of llama-cpp-python's library, as
llama-quantize calls it without an importance matrix, rounds the same weights. Prints the root mean square error of both as a
share of the weights' own, and exits with 1 where mlx loses more. It needs: pip install gguf llama-cpp-python. No test of
ctest runs it: the packages are no dependencies.
"""
import ctypes
import glob
import json
import os
import subprocess
import sys
import tempfile

import gguf
import llama_cpp
import numpy

WIDTH, HIDDEN, VOCABULARY = 512, 1024, 300
KINDS = ("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K")


def weights():
    rng = numpy.random.default_rng(5)
    draw = (lambda dims: rng.standard_normal(dims), lambda dims: rng.standard_t(4, dims))
    yield "model.embed_tokens.weight", rng.standard_normal((VOCABULARY, WIDTH))
    for i in range(2):
        prefix = f"model.layers.{i}."
        for name, dims in (("self_attn.q_proj", (WIDTH, WIDTH)), ("self_attn.k_proj", (WIDTH, WIDTH)), ("self_attn.v_proj", (WIDTH, WIDTH)),
                           ("self_attn.o_proj", (WIDTH, WIDTH)), ("mlp.gate_proj", (HIDDEN, WIDTH)), ("mlp.up_proj", (HIDDEN, WIDTH)),
                           ("mlp.down_proj", (WIDTH, HIDDEN))):
            yield f"{prefix}{name}.weight", draw[i](dims) * 0.02
        for name in ("input_layernorm", "post_attention_layernorm"):
            yield f"{prefix}{name}.weight", numpy.ones(WIDTH)
    yield "model.norm.weight", numpy.ones(WIDTH)
    yield "lm_head.weight", rng.standard_normal((VOCABULARY, WIDTH)) * 0.02


def write_folder(folder):
    os.makedirs(folder)
    json.dump({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": VOCABULARY, "hidden_size": WIDTH,
               "intermediate_size": HIDDEN, "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 8,
               "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": False},
              open(os.path.join(folder, "config.json"), "w"))
    header, data = {}, b""
    for name, numbers in weights():
        added = numbers.astype(numpy.float32).tobytes()
        header[name] = {"dtype": "F32", "shape": list(numbers.shape), "data_offsets": [len(data), len(data) + len(added)]}
        data += added
    text = json.dumps(header).encode()
    with open(os.path.join(folder, "model.safetensors"), "wb") as out:
        out.write(len(text).to_bytes(8, "little") + text + data)


def ggml_round(library, numbers, kind):
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    numbers = numpy.ascontiguousarray(numbers, numpy.float32)
    blocks = numpy.zeros((len(numbers), numbers.shape[1] // elements * size), numpy.uint8)
    library.ggml_quantize_chunk(int(kind), numbers.ctypes.data_as(ctypes.c_void_p), blocks.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(0),
                                ctypes.c_int64(len(numbers)), ctypes.c_int64(numbers.shape[1]), None)
    return gguf.quants.dequantize(blocks, kind)


def paired(weight, heads):
    """The rows of queries and keys as files of llama have them."""
    return weight.reshape(heads, 2, -1, weight.shape[-1]).transpose(0, 2, 1, 3).reshape(weight.shape)


def error(got, wanted):
    return float(numpy.sqrt(((got.astype(numpy.float64) - wanted)**2).mean() / (wanted.astype(numpy.float64)**2).mean()))


def main():
    mlx = os.path.abspath(sys.argv[1])
    library = ctypes.CDLL(glob.glob(os.path.join(os.path.dirname(llama_cpp.__file__), "lib", "libggml-base.so"))[0])
    library.ggml_quantize_chunk.restype = ctypes.c_size_t
    good = True
    with tempfile.TemporaryDirectory() as place:
        run = lambda *arguments: subprocess.run([mlx, *arguments], cwd=place, check=True, capture_output=True, text=True).stdout
        write_folder(os.path.join(place, "lm"))
        wanted = {name: numbers.astype(numpy.float32) for name, numbers in weights()}
        run("init")
        run("import", "model", "lm")
        print(f"gguf, llama-cpp-python {llama_cpp.__version__}; errors as shares of the weights")
        print(f"{'type':6} {'weights':14} {'mlx':>9} {'llama.cpp':>10} {'ratio':>7}")
        for kind in KINDS:
            version = json.loads(run("quantize", "lm@v1", "--to", kind.lower(), "--json"))["model"]
            run("export", "model", version, "--format", "gguf", "--out", kind + ".gguf")
            tensors = {tensor.name: tensor for tensor in gguf.GGUFReader(os.path.join(place, kind + ".gguf")).tensors}
            for i, title in enumerate(("normal", "heavy tails")):
                ours, theirs = [], []
                for name, there in (("self_attn.q_proj", "attn_q"), ("self_attn.v_proj", "attn_v"), ("mlp.up_proj", "ffn_up"), ("mlp.down_proj", "ffn_down")):
                    exact, tensor = wanted[f"model.layers.{i}.{name}.weight"], tensors[f"blk.{i}.{there}.weight"]
                    exact = paired(exact, 8) if there == "attn_q" else exact
                    assert tensor.tensor_type.name == kind, tensor.tensor_type
                    ours.append(error(gguf.quants.dequantize(tensor.data, tensor.tensor_type), exact))
                    theirs.append(error(ggml_round(library, exact, tensor.tensor_type), exact))
                ours, theirs = numpy.mean(ours), numpy.mean(theirs)
                good = good and ours <= theirs
                print(f"{kind:6} {title:14} {ours:9.5f} {theirs:10.5f} {ours / theirs:7.3f}{'' if ours <= theirs else '  WORSE'}")
    sys.exit(0 if good else 1)


main()
