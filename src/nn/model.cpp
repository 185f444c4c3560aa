// Models as versions: two files in a manifest, three with a tokenizer. Written the same way every time; nothing is
// trusted when they are read.

#include "nn/model.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/path.h"
#include "graph/passes/passes.h"
#include "nn/imported.h"
#include "nn/model_json.h"
#include "store/worktree/file_cache.h"

namespace mlx::nn {
namespace {

constexpr std::uint64_t kLongestDescription = 64 << 20;

// A file's bytes, and their owner: a mapping of the file, or memory.
struct Content {
  ByteView bytes;
  graph::Backing backing;
};

Content mapped(const std::string& path) {
  const auto file = std::make_shared<const MappedFile>(path);
  return {file->bytes(), {file, MappedFile::release}};
}

Content in_memory(Bytes bytes) {
  const auto memory = std::make_shared<const Bytes>(std::move(bytes));
  return {*memory, {memory}};
}

// Access to the files of a model, wherever they are.
struct Files {
  std::function<std::optional<Content>(const char* name, std::uint64_t most)> read;  // nullopt if the file is missing
  std::function<std::string(const char* name)> place;                                // for messages
};

// Reads all of a stored file into memory that is allocated once; a growing buffer would hold a large file twice.
Content read_whole(const store::BlobReader& reader) {
  const auto size = static_cast<std::size_t>(reader.size());
  const auto memory = std::make_shared_for_overwrite<std::uint8_t[]>(size);
  constexpr std::size_t kStep = std::size_t{1} << 20;
  for (std::size_t at = 0; at < size; at += kStep) reader.read_at(at, memory.get() + at, std::min(kStep, size - at));
  return {{memory.get(), size}, {memory}};
}

// What another user owns he may cut or change while it is read, at a time of his choice.
bool is_own_file(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && status.st_uid == ::geteuid();
}

// A large file of weights, mapped from the cache of whole files: after the first time nothing is unpacked or copied,
// and what kernels do not read takes no memory. Nothing from an encrypted store, whose plain bytes stay off the disk,
// or if the cache cannot be written, or would fill the disk, or if somebody empties it meanwhile, or if another user
// made the file.
std::optional<Content> from_cache(const store::Store& store, const store::Entry& entry) {
  constexpr std::uint64_t kLeast = std::uint64_t{64} << 20;
  if (entry.size < kLeast || store.encrypted()) return std::nullopt;
  try {
    NoProgress progress(store.interruption());
    store::FileCache cache(store);
    const bool room = free_space(store.folder()) >= 2 * static_cast<std::int64_t>(entry.size);
    if (!room && !cache.has(entry)) return std::nullopt;
    const std::string path = cache.obtain(entry, progress);
    return is_own_file(path) ? std::optional(mapped(path)) : std::nullopt;
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kIo && error.kind != ErrorKind::kNotFound) throw;
    return std::nullopt;
  }
}

// The largest possible file for the weights of `graph`. It bounds the memory that a false claim can make us allocate.
std::uint64_t longest_weights(const graph::Graph& graph) {
  std::uint64_t bytes = kLongestDescription;  // the header
  const std::vector<std::int64_t> ones(graph.symbols.size(), 1);
  for (const graph::Value& value : graph.values)
    if (graph::outlives_step(value.role)) bytes += graph::concrete(value, ones).bytes();
  return bytes;
}

store::Entry file_of(const store::Store& store, const Digest& manifest, const char* name) {
  const std::optional<store::Entry> entry = store.find(manifest, name);
  if (!entry || entry->mode == store::kModeLink) {
    throw Error(ErrorKind::kCorrupt, fmt::format("version {} has no file {}", manifest.brief(), name),
                "is it a model?");
  }
  return *entry;
}

Files files_of(const store::Store& store, const Digest& manifest) {
  const auto place = [manifest](const char* name) { return fmt::format("version {}: {}", manifest.brief(), name); };
  const auto read = [&store, manifest, place](const char* name, std::uint64_t most) -> std::optional<Content> {
    const std::optional<store::Entry> entry = store.find(manifest, name);
    if (!entry || entry->mode == store::kModeLink) return std::nullopt;
    const store::BlobReader reader = store.open_blob(entry->content);
    if (const std::uint64_t size = std::max(entry->size, reader.size()); size > most)
      fail(ErrorKind::kCorrupt, "{}: {} is more than the allowed size", place(name), format_bytes(size));
    if (name == std::string_view(kWeightsFile)) {
      if (std::optional<Content> content = from_cache(store, *entry)) return content;
    }
    return read_whole(reader);
  };
  return {read, place};
}

Files files_of(const std::string& folder) {
  const auto place = [folder](const char* name) { return join_path(folder, name); };
  const auto read = [folder, place](const char* name, std::uint64_t most) -> std::optional<Content> {
    const std::string path = place(name);
    if (!path_exists(path)) return std::nullopt;
    check_inside(folder, path);
    return name == std::string_view(kWeightsFile) ? mapped(path) : in_memory(read_regular_file(path, most));
  };
  return {read, place};
}

Content read_needed(const Files& files, const char* name, std::uint64_t most) {
  std::optional<Content> content = files.read(name, most);
  if (!content)
    throw Error(ErrorKind::kCorrupt, fmt::format("{}: there is no such file", files.place(name)), "is it a model?");
  return std::move(*content);
}

// Parameters of f32 may be stored in half precision, as an outside model had them.
bool becomes_f32(const graph::Value& value, const kernels::Shape& stored) {
  return value.role == graph::Role::kParameter && value.dtype == graph::DType::kF32 && kernels::is_half(stored.dtype);
}

// Checks that every parameter, state and constant has a tensor of the graph's dtype and shape, and that there are no
// other tensors.
void check_tensors(const Model& model, const std::string& what) {
  std::size_t expected = 0;
  for (const graph::Value& value : model.graph.values) {
    if (value.role == graph::Role::kActivation || value.role == graph::Role::kInput) continue;
    for (const graph::Dim& dim : value.dims) {
      if (dim.symbolic()) fail(ErrorKind::kCorrupt, "{}: '{}' has a symbolic size, weights must not", what, value.name);
    }
    const auto found = model.weights->find(value.name);
    if (!found) fail(ErrorKind::kCorrupt, "{}: the tensor '{}' is missing", what, value.name);
    const kernels::Shape shape = graph::concrete(value, {});
    kernels::Shape stored = found->shape();
    if (becomes_f32(value, stored)) stored.dtype = graph::DType::kF32;
    if (!(stored == shape)) {
      fail(ErrorKind::kCorrupt, "{}: '{}' does not have the graph's dtype and shape, {} {}", what, value.name,
           kernels::name_of(value.dtype), graph::to_text(model.graph, value.dims));
    }
    ++expected;
  }
  if (model.weights->size() != expected) {
    for (const auto& [name, weight] : model.weights->all()) {
      const graph::ValueId id = model.graph.find(name);
      const bool held = id != graph::kNone && model.graph.value(id).role != graph::Role::kActivation &&
                        model.graph.value(id).role != graph::Role::kInput;
      if (!held) fail(ErrorKind::kCorrupt, "{}: the graph has no tensor '{}'", what, name);
    }
  }
}

// nullopt if there is none. It must fit the logits, or may be smaller if they may be `longer`.
std::shared_ptr<const data::Tokenizer> read_tokenizer(const Files& files, const graph::Graph& graph, bool longer) {
  const char* name = nullptr;
  std::optional<Content> text;
  for (const char* const known : kTokenizerFiles)
    if (!text) text = files.read(name = known, kLongestDescription);
  if (!text) return nullptr;
  const std::string what = files.place(name);
  data::Tokenizer tokenizer = data::Tokenizer::from_file(as_text(text->bytes), what);
  const std::int64_t tokens = graph::vocabulary_size(graph);
  // An outside model may have a table that is longer than its vocabulary, so that its size is a round number.
  if (tokens < tokenizer.size() || (!longer && tokens != tokenizer.size())) {
    fail(ErrorKind::kCorrupt, "{}: {} tokens do not match the graph's output {}", what, tokenizer.size(),
         graph::to_text(graph, graph.value(graph.outputs.at(0)).dims));
  }
  return std::make_shared<const data::Tokenizer>(std::move(tokenizer));
}

Json read_json(const Files& files) {
  const std::string what = files.place(kModelFile);
  const Content text = read_needed(files, kModelFile, kLongestDescription);
  Json json = parse_json(as_text(text.bytes), what);
  if (!json.is_object()) fail(ErrorKind::kCorrupt, "{}: expected an object, got {}", what, json.type_name());
  check_model_format(json, what);
  return json;
}

Model read_description(const Files& files) {
  Model model = model_from_json(read_json(files), files.place(kModelFile));
  const bool outside = !architecture_of(model).empty();
  model.preprocessing.tokenizer = read_tokenizer(files, model.graph, outside);
  for (const char* const name : kKeptFiles) {
    if (!outside) break;
    if (const std::optional<Content> content = files.read(name, kLongestDescription))
      model.kept[name] = as_text(content->bytes);
  }
  return model;
}

Model read_as_stored(const Files& files) {
  Model model = read_description(files);
  const std::string what = files.place(kWeightsFile);
  const Content file = read_needed(files, kWeightsFile, longest_weights(model.graph));
  model.weights = std::make_shared<const graph::Weights>(view_tensors(file.bytes, what), file.backing);
  check_tensors(model, what);
  return model;
}

Model read_model(const Files& files) {
  Model model = read_as_stored(files);
  model.weights = std::make_shared<const graph::Weights>(in_f32(model.graph, *model.weights));
  return model;
}

// Adds the files beside the weights, and commits.
store::ManifestSummary store_files(store::Batch& batch, const Model& model, store::Entry weights) {
  std::vector<store::Entry> entries{std::move(weights)};
  const auto add = [&](const std::string& name, const std::string& text) {
    entries.push_back({name, store::kModeFile, text.size(), batch.add_blob(as_bytes(text))});
  };
  add(kModelFile, canonical(model_json(model)));
  if (const auto& tokenizer = model.preprocessing.tokenizer) add(tokenizer->file_name(), tokenizer->file());
  for (const auto& [name, text] : model.kept) add(name, text);
  const store::ManifestSummary summary = batch.add_manifest(std::move(entries));
  batch.commit();
  return summary;
}

}  // namespace

// A link may name another file of the folder. One that leads out of it would bring a file that nobody meant into a
// version, and from there to remotes.
void check_inside(const std::string& folder, const std::string& path) {
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(path, error),
                              root = std::filesystem::canonical(folder, error);
  if (error || real.parent_path() == root || real.string().starts_with(root.string() + "/")) return;
  throw Error(ErrorKind::kRefused, fmt::format("{}: a symbolic link that leaves the folder", path),
              "copy the file instead: cp -L");
}

store::ManifestSummary store_model(store::Store& store, const Model& model, const std::optional<Digest>& base) {
  const TensorStream stream = stream_tensors(refs_to(*model.weights));
  Bytes weights(stream.size);
  stream.read(weights.data(), weights.size());
  const std::unique_ptr<store::Batch> batch = store.begin();
  std::optional<Digest> before;
  if (base) before = file_of(store, *base, kWeightsFile).content;
  const Digest content = batch->add_blob(weights, before ? &*before : nullptr);
  return store_files(*batch, model, {kWeightsFile, store::kModeFile, weights.size(), content});
}

store::ManifestSummary store_model(store::Store& store, const Model& model, LateTensors weights) {
  const TensorStream stream = stream_tensors({}, std::move(weights));
  const std::unique_ptr<store::Batch> batch = store.begin();
  const Digest content = batch->add_stream(stream.read, stream.size);
  return store_files(*batch, model, {kWeightsFile, store::kModeFile, stream.size, content});
}

graph::Weights in_f32(const graph::Graph& graph, const graph::Weights& stored) {
  graph::Weights::Map all = stored.all();
  for (const graph::Value& value : graph.values) {
    const auto found = all.find(value.name);
    if (found != all.end() && becomes_f32(value, found->second->shape()))
      found->second = std::make_shared<const graph::Weight>(found->second);
  }
  return graph::Weights(std::move(all));
}

std::string architecture_of(const Model& model) {
  if (model.family != kImported || model.config.empty()) return {};
  const Json config = parse_json(model.config, "the model's config");
  return config.contains("architecture") ? json_string(config, "architecture", "the model's config") : std::string();
}

Json load_model_json(const store::Store& store, const Digest& manifest) {
  return read_json(files_of(store, manifest));
}

Model load_description(const store::Store& store, const Digest& manifest) {
  return read_description(files_of(store, manifest));
}

Model load_model(const store::Store& store, const Digest& manifest) {
  return read_model(files_of(store, manifest));
}

std::size_t stored_weight_bytes(const store::Store& store, const Digest& manifest) {
  const store::Entry entry = file_of(store, manifest, kWeightsFile);
  const store::BlobReader reader = store.open_blob(entry.content);
  const LateTensors tensors = late_tensors(
      reader.size(), [&](std::uint64_t at, void* to, std::size_t count) { reader.read_at(at, to, count); },
      fmt::format("version {}: {}", manifest.brief(), kWeightsFile));
  std::size_t bytes = 0;
  for (const auto& [name, shape] : tensors.shapes) bytes += shape.bytes();
  return bytes;
}

Model load_model_as_stored(const store::Store& store, const Digest& manifest) {
  return read_as_stored(files_of(store, manifest));
}

bool is_model_folder(const std::string& folder) {
  return is_folder(folder) && path_exists(join_path(folder, kModelFile));
}

FolderModel load_model_folder(const std::string& folder) {
  if (!is_model_folder(folder)) {
    throw Error(ErrorKind::kNotFound,
                fmt::format("{}: not a model's folder, because {} is missing", folder, kModelFile),
                "`mlx checkout NAME --to FOLDER` writes a model's files into a folder");
  }
  const Files files = files_of(folder);
  std::vector<store::Entry> entries;
  const auto read = [&](const char* name, std::uint64_t most) {
    std::optional<Content> content = files.read(name, most);
    if (content) entries.push_back({name, store::kModeFile, content->bytes.size(), Digest::of(content->bytes)});
    return content;
  };
  FolderModel loaded;
  loaded.model = read_model({read, files.place});
  std::ranges::sort(entries, {}, &store::Entry::path);
  loaded.digest = store::summarize(entries).id;
  return loaded;
}

}  // namespace mlx::nn
