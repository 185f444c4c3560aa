// Writes a few correct inputs for each target into FOLDER/TARGET/: where the fuzzer starts from.
#include <zstd.h>

#include <algorithm>
#include <cstdio>

#include "base/fd.h"
#include "base/path.h"
#include "formats/idx.h"
#include "formats/lfs_pointer.h"
#include "formats/safetensors.h"
#include "registry/operations/operation.h"
#include "registry/versions/pointers.h"
#include "store/format/chunk_list.h"
#include "store/format/codec.h"
#include "store/remote/wire.h"

using namespace mlx;
using namespace std::literals;
using namespace mlx::store;

namespace {

std::string folder;

void seed(const std::string& target, ByteView bytes) {
  static int count = 0;
  const std::string path = join_path(folder, target);
  make_folders(path);
  write_file_atomically(join_path(path, "seed-" + std::to_string(count++)), bytes);
}

Bytes joined(ByteView first, ByteView second) {
  Bytes all(first.begin(), first.end());
  all.insert(all.end(), second.begin(), second.end());
  return all;
}

StoredObject object_of(Encoding encoding) {
  Bytes plain(4096);
  for (std::size_t i = 0; i < plain.size(); ++i) plain[i] = static_cast<std::uint8_t>(i % 4 < 2 ? i / 64 : 0x3f);
  const Digest id = Digest::of(plain);
  const ObjectKey key{id, ObjectKind::kChunk};
  if (encoding == Encoding::kDelta) {
    const Bytes base(plain.size());
    return *Codec().encode_delta(key, plain, 4, {Digest::of(base), {Digest::of(base), ObjectKind::kChunk}, base}, 4096);
  }
  return Codec().encode(key, id, encoding == Encoding::kRaw ? ByteView(plain).first(20) : plain,
                        encoding == Encoding::kPlanes ? 4 : 1);
}

void packs() {
  std::vector<PackRecord> records;
  Bytes pack = pack_header();
  for (const Encoding encoding : {Encoding::kRaw, Encoding::kZstd, Encoding::kPlanes, Encoding::kDelta}) {
    const StoredObject object = object_of(encoding);
    PackRecord record;
    record.key = object.key;
    record.key.id.bytes[0] = static_cast<std::uint8_t>(encoding);
    record.offset = pack.size() + kEntryHeaderSize + object.extra.size();
    record.checksum = object.checksum;
    record.stored_size = static_cast<std::uint32_t>(object.stored.size());
    record.plain_size = object.plain_size;
    record.encoding = object.encoding;
    record.extra_size = static_cast<std::uint16_t>(object.extra.size());
    records.push_back(record);
    pack = joined(pack, joined(entry_header(object), joined(object.extra, object.stored)));
    const Bytes head{
        0, static_cast<std::uint8_t>(object.encoding),        0,
        0, static_cast<std::uint8_t>(object.plain_size >> 8), static_cast<std::uint8_t>(object.plain_size)};
    seed("pack", joined(head, object.stored));
  }
  Digest id;
  const Bytes index = encode_pack_index(records, pack.size(), &id);
  seed("pack", joined(pack, index));
  seed("pack", ByteView(index).first(kFanoutSize + kRecordSize * records.size()));
}

// Heads and one pack: an operation, the tree that it names, and a file of two chunks.
void remotes() {
  const Bytes first(100, 'a'), second(50, 'b'), whole = joined(first, second);
  const Bytes shard = encode_shard(std::vector<Entry>{{"a", kModeFile, first.size(), Digest::of(first)},
                                                      {"b", kModeFile, whole.size(), Digest::of(whole)}});
  const Bytes root = encode_root({{"a", Digest::of(shard), 2, first.size() + whole.size()}});
  const Bytes list = encode_chunk_list({0, whole.size(), {{Digest::of(first), 100}, {Digest::of(second), 50}}});
  registry::Operation made;
  made.kind = "version.create";
  made.actor = "0123456789abcdef";
  made.body = R"({"digest":")" + Digest::of(root).text() + R"("})";
  const Bytes operation = registry::encode(made);
  std::vector<PackRecord> records;
  Bytes pack = pack_header();
  const auto add = [&](ObjectKind kind, const Digest& id, const Bytes& plain) {
    const StoredObject object = Codec().encode({id, kind}, id, plain);
    PackRecord record = record_of(object);
    record.offset = pack.size() + kEntryHeaderSize;
    records.push_back(record);
    pack = joined(pack, joined(entry_header(object), object.stored));
  };
  add(ObjectKind::kChunk, Digest::of(first), first);
  add(ObjectKind::kChunk, Digest::of(second), second);
  add(ObjectKind::kChunkList, Digest::of(whole), list);
  add(ObjectKind::kShard, Digest::of(shard), shard);
  add(ObjectKind::kManifest, Digest::of(root), root);
  add(ObjectKind::kOperation, Digest::of(operation), operation);
  std::ranges::sort(records, [](const PackRecord& a, const PackRecord& b) { return a.key < b.key; });
  Digest id;
  pack = joined(pack, encode_pack_index(records, pack.size(), &id));
  const Bytes heads = to_bytes("mlx heads 1\n" + Digest::of(operation).text() + "\n");
  const auto sized = [](const Bytes& part) {
    return joined(Bytes{static_cast<std::uint8_t>(part.size() >> 8), static_cast<std::uint8_t>(part.size())}, part);
  };
  for (const std::uint8_t choice : {0, 1}) seed("remote", joined(Bytes{choice}, joined(sized(heads), sized(pack))));
}

void manifests() {
  std::vector<Entry> entries;
  for (int i = 0; i < 9; ++i) entries.push_back({"folder/file" + std::to_string(i), kModeFile, 5, Digest::of("x")});
  const Bytes shard = encode_shard(entries);
  seed("manifest", shard);
  seed("manifest", encode_root({{"folder/file0", Digest::of(shard), 9, 45}, {"g", Digest::of("y"), 1, 1}}));
  seed("manifest", encode_chunk_list({0, 300, {{Digest::of("a"), 100}, {Digest::of("b"), 200}}}));
}

void words() {
  registry::Pointer pointer;
  pointer.artifact = "data/f%shion \xc3\xa4";
  pointer.digest = Digest::of("x");
  pointer.files = 3;
  seed("pointer", as_bytes(registry::encode_pointer(pointer)));
  registry::Operation operation;
  operation.kind = "tag.create";
  operation.parents = {Digest::of("p")};
  operation.actor = "0123456789abcdef";
  operation.time = 1234567;
  operation.body = R"({"artifact":"clf","name":"v1.0"})";
  seed("operation", registry::encode(operation));
  operation.signer = Digest::of("key");
  operation.clone = "0123456789abcdef";
  operation.actor = registry::actor_of(operation.clone, operation.signer);
  seed("operation", registry::encode(operation));
  seed("settings",
       as_bytes("# a\n[remotes.origin]\nurl = \"ssh://host/x\"\n[core]\nthreads = 4\nlist = [1, 2.5, true]\n"));
  seed("settings", as_bytes(R"({"a": [1, -2.5e3, true, null], "b": {"c": "\u00e4\n"}})"));
}

void headers() {
  const auto with_size = [](std::uint32_t size, ByteView head) {
    const Bytes first{static_cast<std::uint8_t>(size >> 24), static_cast<std::uint8_t>(size >> 16),
                      static_cast<std::uint8_t>(size >> 8), static_cast<std::uint8_t>(size), 0};
    return joined(first, head);
  };
  std::vector<formats::SafetensorsEntry> tensors{{"w", "F32", {2, 3}, 0, 24}, {"b", "BF16", {4}, 24, 32}};
  const Bytes safetensors = formats::encode_safetensors_header(tensors);
  seed("formats", with_size(static_cast<std::uint32_t>(safetensors.size() + 32), safetensors));
  seed("formats", with_size(800, formats::encode_idx_header(formats::IdxType::kU8, {1, 28, 28})));
  ByteWriter gguf;
  gguf.raw(as_bytes("GGUF"));
  gguf.u32(3);
  gguf.u64(1);  // tensors
  gguf.u64(1);  // metadata
  const auto text = [&](std::string_view value) {
    gguf.u64(value.size());
    gguf.raw(as_bytes(value));
  };
  text("general.name");
  gguf.u32(8);
  text("tiny");
  text("w");
  gguf.u32(1);
  gguf.u64(8);
  gguf.u32(0);
  gguf.u64(0);
  seed("formats", with_size(4096, gguf.bytes()));
}

void configurations() {
  const std::string sizes =
      R"("vocab_size":8,"hidden_size":8,"intermediate_size":8,"num_hidden_layers":2,"num_attention_heads":2,"head_dim":4,)"
      R"("max_position_embeddings":64,"sliding_window":8,"attn_logit_softcapping":50.0,)"
      R"("layer_types":["full_attention","sliding_attention"],"rope_parameters":{"rope_theta":1e4,"rope_type":)";
  for (const std::string name : {"Llama", "Mistral", "Qwen2", "Qwen3", "Phi3", "Gemma2", "Gemma3"})
    for (const std::string rope :
         {R"("yarn","factor":4,"original_max_position_embeddings":32,"beta_fast":32,"truncate":true})",
          R"("llama3","factor":8,"low_freq_factor":1,"high_freq_factor":4,"original_max_position_embeddings":16})",
          R"("linear","factor":2})"})
      seed("gguf", as_bytes(R"({"architectures":[")" + name + R"(ForCausalLM"],)" + sizes + rope + "}"));
  for (const std::string name : {"Bert", "XLMRoberta"})
    seed("gguf", as_bytes(R"({"architectures":[")" + name + R"(Model"],"pad_token_id":1,"type_vocab_size":2,)" + sizes +
                          R"("default"}})"));
  seed("gguf",
       as_bytes(std::string_view(R"({"architectures":["DistilBertModel"],"vocab_size":8,"dim":8,"hidden_dim":8,)"
                                 R"("n_layers":2,"n_heads":2,"max_position_embeddings":16,"activation":"relu"})")));
}

// Templates as chats have them, and one of each thing that they may hold.
void chat_templates() {
  const std::string_view templates[] = {
      "{{ bos_token }}{% for m in messages %}{{ '<|' + m['role'] + '|>\n' + m.content|trim + '<|end|>' }}\n{% endfor %}"
      "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}",
      "{%- set ns = namespace(last=messages|length - 1, found=false) -%}{%- for m in messages[::-1] %}\n  {%- if not "
      "ns.found and m.role == \"user\" and m.content is string %}{% set ns.found = true %}{% set ns.last = loop.index0 "
      "%}{% endif %}\n{%- endfor %}{{- ns.last ~ messages[ns.last:]|tojson(indent=2) }}",
      "{% macro say(m, end='x') %}[{{ m.content.split('x')[-1].lstrip('\\n')|default('d', true) }}{{ end }}]{% "
      "endmacro %}"
      "{% for k, v in messages[0].items() if v is not none %}{{ say(messages[1], end=k) }}{% else %}-{% endfor %}",
      "{% set t %}\n{{ messages|map(attribute='role')|join(', ') }}{% endset %}{{ t.upper() if t else "
      "strftime_now('%d') "
      "}}{# c #}{% raw %}{{ }}{% endraw %}{{ [1, 2.5, {'a': (1,)}, none] }}{{ range(3)|list }}",
      "{% if messages|selectattr('role', 'equalto', 'system')|list|length > 1 %}{{ raise_exception('two') }}{% elif "
      "'a' "
      "not in 'abc' %}{% endif %}{% generation %}{{ 7 // 2 * -3 % 4 }}{% endgeneration %}"};
  for (const std::string_view text : templates) seed("templates", as_bytes(text));
}

// Two bytes cut a text into pieces.
void requests() {
  const std::string_view bodies[] = {
      R"({"model":"lm","messages":[{"role":"developer","content":[{"type":"text","text":"a"}]},{"role":"assistant",)"
      R"("tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},)"
      R"({"role":"tool","tool_call_id":"1","content":"b"}],"tools":[{"type":"function","function":{"name":"f"}}],)"
      R"("tool_choice":"required","logprobs":true,"top_logprobs":2,"stream_options":{"include_usage":true}})",
      R"({"prompt":["a","b"],"n":2,"stop":["x"],"logit_bias":{"7":-100},"seed":1,"response_format":{"type":)"
      R"("json_schema","json_schema":{"schema":{"type":"object"}}}})",
      R"(So. <tool_call>{"name": "f", "arguments": {}}</tool_call> <tool_call>{"name": "f"}</tool_call>)",
      R"({"name": "f", "parameters": {"a": "b"}})",
      R"({"id":"1","inputs":[{"name":"a","datatype":"INT16","shape":[2],"parameters":{"binary_data_size":4}},{"name":"b",)"
      R"("datatype":"BYTES","shape":[1],"parameters":{"binary_data_size":5}}],"outputs":[{"name":"label","parameters":)"
      "{\"binary_data\":true}}]}abcd\1\0\0\0x"sv,
  };
  for (const std::string_view text : bodies) seed("requests", as_bytes("ab" + std::string(text)));
}

// What a text must be like: a byte tells which of the two notations it is, four choose a text of it.
void grammars() {
  const std::string_view schemas[] = {
      R"({})",
      R"({"type":"object","properties":{"a":{"type":"integer","minimum":-12,"maximum":105},"b":{"enum":["x",1,null]},)"
      R"("c":{"type":"array","prefixItems":[{"type":"boolean"}],"items":{"$ref":"#/$defs/d"},"maxItems":4}},)"
      R"("required":["b"],"additionalProperties":{"type":"number","minimum":0},"$defs":{"d":{"type":["string","null"],)"
      R"("minLength":1,"maxLength":3}}})",
      R"({"oneOf":[{"type":"string","pattern":"^(a|[b-d]{2,})\d?$"},{"type":"array","items":{"$ref":"#"}}]})",
      R"({"anyOf":[{"format":"date-time"},{"format":"uuid"},{"const":{"k":[1.5]}},{"allOf":[{"type":"integer"}]}]})"};
  const std::string_view notations[] = {
      "root ::= object # top\nvalue ::= object | \"[\" (value (\",\" value)*)? \"]\" | [0-9]+ | \"null\"\n"
      "object ::= \"{\" ( \"\\\"\" [^\"\\\\\\x00-\\x1f]* \"\\\":\" value )? \"}\"\n",
      "root ::= (a | \"b\"{2,3} | . [\\u00e4-\\U0001F600]{0,2})+\na ::= \"a\" a | \"\"\n"};
  for (const std::string_view text : schemas) seed("grammars", as_bytes(std::string(5, '\0') + std::string(text)));
  for (const std::string_view text : notations) seed("grammars", as_bytes(std::string(5, '\1') + std::string(text)));
}

// A small language model with a tensor of every type, and one of each kind of tokenizer.
void language_models() {
  for (const bool bytes : {false, true}) {
    ByteWriter out;
    std::uint64_t keys = 0;
    const auto text = [&](std::string_view value) {
      out.u64(value.size());
      out.raw(as_bytes(value));
    };
    const auto key = [&](std::string_view name, std::uint32_t type) {
      text(name);
      out.u32(type);
      ++keys;
    };
    const auto integer = [&](std::string_view name, std::uint32_t value) { key(name, 4), out.u32(value); };
    const auto string = [&](std::string_view name, std::string_view value) { key(name, 8), text(value); };
    const auto strings = [&](std::string_view name, std::initializer_list<std::string_view> values) {
      key(name, 9), out.u32(8), out.u64(values.size());
      for (const std::string_view value : values) text(value);
    };
    string("general.architecture", bytes ? "qwen2" : "llama");
    const std::string prefix = bytes ? "qwen2." : "llama.";
    for (const char* const name : {"context_length", "embedding_length", "feed_forward_length", "block_count"})
      integer(prefix + name, 8);
    integer(prefix + "attention.head_count", 2);
    key(prefix + "rope.freq_base", 6), out.u32(0x461c4000);
    string("tokenizer.ggml.model", bytes ? "gpt2" : "llama");
    if (bytes) {
      string("tokenizer.ggml.pre", "qwen2");
      strings("tokenizer.ggml.tokens", {"a", "b", "ab", "<e>"});
      strings("tokenizer.ggml.merges", {"a b"});
    } else {
      strings("tokenizer.ggml.tokens", {"<unk>", "a", "b", "ab"});
      key("tokenizer.ggml.scores", 9), out.u32(6), out.u64(4);
      for (int i = 0; i < 4; ++i) out.u32(static_cast<std::uint32_t>(0x3f800000 + i));
    }
    integer("tokenizer.ggml.bos_token_id", 1);
    const Bytes metadata = out.take();
    const std::uint32_t types[] = {0, 1, 2, 3, 6, 7, 8, 10, 11, 12, 13, 14, 30};
    out.raw(as_bytes("GGUF"));
    out.u32(3);
    out.u64(std::size(types));
    out.u64(keys);
    out.raw(metadata);
    std::uint64_t offset = 0;
    for (const std::uint32_t type : types) {
      text(type == 0 ? "token_embd.weight" : "blk.0." + std::to_string(type));
      out.u32(2), out.u64(256), out.u64(1), out.u32(type), out.u64(offset);
      offset += 1024;
    }
    Bytes file = out.take();
    file.resize(file.size() + 32 + offset, 17);
    seed("gguf", file);
  }
}

// A member under a long name and one with a pax header; the target sets the checksums.
void shards() {
  const auto member = [](std::string_view name, char type, std::string_view data) {
    Bytes out(512 + (data.size() + 511) / 512 * 512);
    std::ranges::copy(name, out.begin());
    const std::string size = fmt::format("{:011o}", data.size());
    std::ranges::copy(size, out.begin() + 124);
    out[156] = static_cast<std::uint8_t>(type);
    std::ranges::copy(std::string_view("ustar"), out.begin() + 257);
    std::ranges::copy(data, out.begin() + 512);
    return out;
  };
  Bytes tar = joined(member("././@LongLink", 'L', "a/long/name.jpg"), member("a", '0', "picture"));
  tar = joined(tar, joined(member("x", 'x', "19 path=b/name.cls\n10 size=3\n"), member("b", '0', "cat")));
  tar = joined(tar, Bytes(1024 + 1));  // an odd size
  seed("formats", joined(Bytes(5), tar));
}

// Every dialect of text, also in UTF-16 and compressed with zstd; run.sh adds gzip and the binary formats. A text's
// kind follows from its size (tables.cpp), so each is there in three sizes.
void tables() {
  for (const std::string text :
       {"id,city,price\n1,\"Oslo, \"\"N\"\"\",1.5\n2,,NA\n3,Bergen,-2e3\n4,true,inf\n5,x,0\n6,y,7\n7,z,8\n8,a,9\n",
        "a;b\r\n1,5;x\r\n2,5;\"y\r\nz\"\r\n", "a\tb|c\n1\t2\n\n3\t4\n", "caf\xe9,b\n\x80,2\n", "1|2\n3|4\n",
        "{\"a\":1,\"b\":\"x\"}\n{\"b\":null,\"c\":[1,{\"d\":2.50}]}\n\n{\"a\":1e3,\"\\u00e4\":true}\n[1,2]\n7\n"}) {
    for (std::size_t more = 0; more < 3; ++more) seed("tables", as_bytes(text + std::string(more, '\n')));
    Bytes wide{0xFF, 0xFE};
    for (const char c : text) wide.push_back(static_cast<std::uint8_t>(c)), wide.push_back(0);
    seed("tables", wide);
    Bytes packed(ZSTD_compressBound(text.size()));
    packed.resize(ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 1));
    seed("tables", packed);
  }
  std::vector<formats::SafetensorsEntry> columns{{"x", "F32", {2, 2}, 0, 0}, {"y", "BF16", {2}, 0, 0}};
  const Bytes header = formats::encode_safetensors_header(columns);
  seed("tables", joined(header, Bytes(20, 0x3f)));
  seed("tables", joined(formats::encode_idx_header(formats::IdxType::kU8, {2, 3, 3}), Bytes(18, 7)));
  seed("tables", as_bytes(R"([{"role":"user","content":"a"},{"role":"assistant","content":"b","weight":1}])"));
}

void foreign() {
  seed("foreign", as_bytes(formats::encode_lfs_pointer(
                      {.oid = Digest::of("x"), .size = 1, .extensions = {{"ext-0-case", "sha256:00"}}})));
  seed("foreign", as_bytes("wdir: ..\nouts:\n- md5: 3199680fb36edf40c564b629cc375c7a.dir\n  size: 10\n  nfiles: 3\n"
                           "  hash: md5\n  path: 'it''s'\nmeta:\n  \"by\": \"\\u00fc\"  # who\n"));
  seed("foreign", as_bytes(R"([{"md5": "60b725f10c9c85c70d97880dfe8191b3", "relpath": "a/b"}])"));
}

void messages() {
  using namespace mlx::store::wire;
  const auto decoded = [](ByteView payload) { seed("wire", joined(Bytes{0}, payload)); };
  const ObjectKey key{Digest::of("asked for"), ObjectKind::kChunk};
  decoded(encode(Hello{}));
  decoded(encode(Open{true, "path"}));
  decoded(encode_keys(&key, 1));
  decoded(encode_ids(&key.id, 1));
  decoded(encode_bitmap({true, false, true}));
  decoded(encode(Publish{{key.id}, {key.id}}));
  decoded(encode_read("keys"));
  decoded(encode_file(to_bytes("file")));
  decoded(encode(Write{"keys", to_bytes("old"), to_bytes("new")}));
  decoded(encode(Error(ErrorKind::kIo, "message", "hint")));
  const Bytes object = object_frame(object_of(Encoding::kDelta));
  decoded(ByteView(object).subspan(kFrameHeaderSize));
  const auto answer = [](int question, std::initializer_list<std::pair<Type, Bytes>> frames) {
    Bytes all{static_cast<std::uint8_t>(133 + question)};  // a multiple of 7
    for (const auto& [type, payload] : frames) {
      const Bytes head{static_cast<std::uint8_t>(type), static_cast<std::uint8_t>(payload.size() >> 8),
                       static_cast<std::uint8_t>(payload.size())};
      all = joined(all, joined(head, payload));
    }
    seed("wire", all);
  };
  answer(0, {{Type::kIds, encode_ids(&key.id, 1)}, {Type::kEnd, encode_count(1)}});
  answer(2, {{Type::kBitmap, encode_bitmap({true, true})}});
  StoredObject asked;
  asked.key = key;
  const Bytes frame_of_asked = object_frame(asked);
  answer(3, {{Type::kObject, Bytes(frame_of_asked.begin() + kFrameHeaderSize, frame_of_asked.end())},
             {Type::kEnd, encode_count(1)}});
  answer(4, {{Type::kVerdict, encode_verdict(false)}});
  answer(5, {{Type::kFile, encode_file(std::nullopt)}});
  answer(6, {{Type::kError, encode(Error(ErrorKind::kRefused, "no", ""))}});
}

// A field of protobuf that holds bytes: short enough that its length takes one byte.
std::string field(int number, const std::string& bytes) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
}

void tokenizers() {
  const std::string models[] = {
      R"({"type":"BPE","unk_token":"a","fuse_unk":true,"vocab":{"a":0,"Ġ":1,"t":2,"h":3,"th":4},"merges":["t h"]})",
      R"({"type":"BPE","byte_fallback":true,"vocab":{"▁":0,"a":1,"▁a":2,"<0xC3>":3},"merges":[["▁","a"]]})",
      R"({"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["▁",-1.5],["a",-2],["▁a",-2.5]]})",
      R"({"type":"WordPiece","unk_token":"[UNK]","vocab":{"[UNK]":0,"th":1,"##e":2,"a":3}})",
      R"({"type":"WordLevel","unk_token":"a","vocab":{"a":0,"the":1}})"};
  const std::string around[] = {
      R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":true,"use_regex":true},"decoder":{"type":"ByteLevel"})",
      R"("normalizer":{"type":"Sequence","normalizers":[{"type":"NFKC"},{"type":"Prepend","prepend":"▁"},{"type":"Replace","pattern":{"String":" "},"content":"▁"}]})",
      R"("pre_tokenizer":{"type":"Metaspace","prepend_scheme":"first"},"decoder":{"type":"Metaspace"})",
      R"("normalizer":{"type":"BertNormalizer"},"pre_tokenizer":{"type":"BertPreTokenizer"},"decoder":{"type":"WordPiece"})",
      R"("pre_tokenizer":{"type":"Split","pattern":{"Regex":"(?i:'s)| ?[\\p{L}&&[^a]]+|\\s+(?!\\S)|(?<=a)b"},"behavior":"MergedWithNext","invert":true})"};
  for (std::size_t i = 0; i < std::size(models); ++i) {
    seed("tokenizers", as_bytes(R"({"added_tokens":[{"id":3,"content":"<s>","lstrip":true,"special":true}],)" +
                                around[i] + R"(,"model":)" + models[i] + "}"));
  }
  for (const char type : {'\1', '\2'}) {
    std::string file = field(1, field(1, "<unk>") + "\x18\x02");
    for (const char* const piece : {"\xE2\x96\x81", "a", "\xE2\x96\x81t", "t", "h"})
      file += field(1, field(1, piece) + std::string("\x15\x00\x00\x80\xBF", 5));
    seed("tokenizers", as_bytes(file + field(2, std::string{'\x18', type}) + field(3, std::string{'\x18', '\1'})));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  folder = argv[1];
  try {
    packs();
    remotes();
    manifests();
    words();
    headers();
    language_models();
    configurations();
    chat_templates();
    grammars();
    requests();
    language_models();
    shards();
    tables();
    foreign();
    messages();
    tokenizers();
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.message.c_str());
    return 1;
  }
  return 0;
}
