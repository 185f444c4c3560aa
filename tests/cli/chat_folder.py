"""Writes a small language model that chats, as `transformers` would: chat_folder.py FOLDER [DTYPE].

Its tokens are bytes and the end of a turn, so that it can write any text, and its chat template knows tools.
"""
import json
import os
import sys

import decoder_folder

CONTEXT = 1024
TEMPLATE = """{% for m in messages %}<{{ m.role }}>{{ m.content }}
{%- for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}
{% endfor %}{% if tools %}{{ tools | tojson }}{% endif %}<assistant>"""


def letters_of_bytes():
    """The letter that stands for each byte in vocabularies of GPT-2's kind."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return {**{byte: chr(byte) for byte in plain}, **{byte: chr(256 + i) for i, byte in enumerate(others)}}


def main():
    folder, dtype = [*sys.argv[1:], "BF16"][:2]
    letters = letters_of_bytes()
    decoder_folder.VOCABULARY = 257
    config = {"architectures": ["LlamaForCausalLM"], **decoder_folder.CONFIGS["LlamaForCausalLM"], "vocab_size": 257,
              "max_position_embeddings": CONTEXT, "rope_scaling": None}
    os.makedirs(folder, exist_ok=True)
    json.dump(config, open(os.path.join(folder, "config.json"), "w"))
    decoder_folder.write_safetensors(os.path.join(folder, "model.safetensors"), list(decoder_folder.rotary_tensors(config, False)), dtype)
    end = {"id": 256, "content": "<|im_end|>", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    tokenizer = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [end], "normalizer": None,
                 "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
                 "post_processor": None, "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
                 "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                           "fuse_unk": False, "byte_fallback": False, "vocab": {letters[byte]: byte for byte in range(256)}, "merges": []}}
    json.dump(tokenizer, open(os.path.join(folder, "tokenizer.json"), "w"))
    json.dump({"eos_token": "<|im_end|>"}, open(os.path.join(folder, "tokenizer_config.json"), "w"))
    json.dump({"eos_token_id": 256}, open(os.path.join(folder, "generation_config.json"), "w"))
    open(os.path.join(folder, "chat_template.jinja"), "w").write(TEMPLATE)


main()
