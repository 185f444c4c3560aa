// mlx import model: a version of the model that a folder holds, in mlx's own files or in those of `transformers`, or of
// the one in a GGUF file.
#include "cmd/import_model.h"

#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/path.h"
#include "base/text.h"
#include "cmd/describe.h"
#include "graph/session/not_finite.h"
#include "infer/jinja/template.h"
#include "infer/signature.h"
#include "nn/gguf_model.h"
#include "nn/hugging_face.h"
#include "nn/imported.h"
#include "nn/kept_files.h"
#include "nn/model_json.h"
#include "registry/operations/names.h"
#include "registry/versions/domains.h"
#include "work/work.h"

namespace mlx::cmd {
namespace {

struct ModelOptions {
  std::string place, name;
  std::int64_t context = 0;
};

// NaN in weights can hide: the maximum of NaN and 0 is 0 to some kernels.
void warn_of_nan(const std::vector<std::string>& names, std::size_t tensors, Context& context) {
  if (names.empty()) return;
  context.progress().warn(
      fmt::format("{} of {} tensors hold NaN or infinity, first '{}'", names.size(), tensors, printable(names[0])));
}

// Everything else works without it, so it is no error.
void warn_of_template(const nn::Model& model, Context& context) {
  const std::optional<std::string> source = nn::chat_template(model);
  if (!source) return;
  try {
    const infer::jinja::Template parsed(*source, "the chat template");
  } catch (const Error& error) {
    context.progress().warn(error.message + "; the model cannot chat");
  }
}

// A model outside of the repository: with its weights, or with those that are made while they are stored.
struct Outside {
  nn::Model model;
  std::optional<nn::LateTensors> late;

  std::size_t tensors() const { return late ? late->shapes.size() : model.weights->size(); }
};

// As they are in the file, where the model has them in f32.
nn::LateTensors stored_tensors(const std::string& path) {
  const auto file = std::make_shared<const MappedFile>(path);
  const auto read = [file](std::uint64_t at, void* to, std::size_t count) {
    if (count > 0) std::memcpy(to, file->bytes().subspan(at, count).data(), count);
  };
  return nn::late_tensors(file->bytes().size(), read, path);
}

// The folder's model in mlx's own files, as it is stored.
Outside read_own(const std::string& folder, Context& context) {
  Outside outside{nn::load_model_folder(folder).model, {}};
  nn::Model& model = outside.model;
  if (!nn::architecture_of(model).empty()) {
    (void)nn::imported(model);
    outside.late = stored_tensors(join_path(folder, nn::kWeightsFile));
  } else if (model.family == nn::kImported) {
    model = nn::imported(std::move(model));
  }
  std::vector<std::string> not_finite;
  for (const auto& [name, weight] : model.weights->all())
    if (!graph::all_finite(weight->data(), weight->shape().dtype)) not_finite.push_back(name);
  warn_of_nan(not_finite, model.weights->size(), context);
  return outside;
}

Outside read_theirs(const std::string& place, bool is_file, const ModelOptions& options, Context& context) {
  nn::OutsideModel outside =
      is_file ? nn::read_gguf(place, options.context) : nn::read_hugging_face(place, options.context);
  warn_of_nan(outside.not_finite, outside.tensors, context);
  if (!outside.model.preprocessing.tokenizer)
    context.progress().warn(
        fmt::format("{} has no {}: the model takes --tokens, not text", printable(options.place),
                    is_file ? "tokenizer" : "tokenizer.json, no tokenizer.model and no vocabulary"));
  return {std::move(outside.model), std::move(outside.weights)};
}

Outside read_outside(const ModelOptions& options, Context& context) {
  const std::string folder = join_path(context.folder(), options.place);
  const bool own = nn::is_model_folder(folder), is_file = nn::may_be_gguf_file(folder);
  if (!own && !is_file && !nn::is_hugging_face_folder(folder)) {
    throw Error(ErrorKind::kNotFound,
                fmt::format("{}: not a model's folder: there is no model.json and no config.json", printable(folder)),
                "a model's folder has mlx's files, as `mlx checkout NAME --to FOLDER` writes them, or those of "
                "`transformers`; a model's file ends with .gguf");
  }
  if (own && options.context != 0)
    fail(ErrorKind::kUsage, "--context is for folders with a config.json and GGUF files; the model in {} has its own",
         printable(options.place));
  try {
    Outside outside = own ? read_own(folder, context) : read_theirs(folder, is_file, options, context);
    (void)infer::signature_of(outside.model);
    warn_of_template(outside.model, context);
    return outside;
  } catch (const Error& error) {
    const std::string named = printable(folder);
    if (error.message.starts_with(named)) throw;
    throw Error(error.kind, fmt::format("{}: {}", printable(options.place), error.message), error.hint);
  }
}

std::string name_for(const ModelOptions& options, Context& context) {
  std::string name = options.name;
  if (name.empty()) {
    name = base_name(absolute_path(join_path(context.folder(), options.place)));
    constexpr std::string_view kSuffix = ".gguf";
    if (name.ends_with(kSuffix)) name.resize(name.size() - kSuffix.size());
  }
  if (const std::string problem = registry::artifact_name_problem(name); !problem.empty()) {
    throw Error(ErrorKind::kUsage, fmt::format("'{}' cannot name a model: {}", printable(name), problem),
                "choose one: --name NAME");
  }
  return name;
}

registry::Created store_model_version(const ModelOptions& options, const std::string& name, const Outside& outside,
                                      registry::Repository& repository) {
  registry::store_under_domain_of(repository, name);
  registry::NewVersion version;
  version.artifact = name;
  version.kind = registry::ArtifactKind::kModel;
  version.manifest = outside.late ? nn::store_model(repository.store(), outside.model, *outside.late)
                                  : nn::store_model(repository.store(), outside.model);
  version.message = "imported from " + printable(options.place);
  if (const std::optional<registry::Erasure> erasure = registry::erasure_of(repository, version.manifest.id)) {
    throw Error(ErrorKind::kRefused,
                fmt::format("{}: this content was erased {}", printable(options.place), erasure_text(*erasure)),
                "erased content is not stored again under the same id");
  }
  registry::Created created = registry::create_version(repository, version);
  work::point_at(repository, created.version);
  return created;
}

int import_model(const ModelOptions& options, Context& context) {
  if (options.context < 0 || options.context > nn::kLongestContext)
    fail(ErrorKind::kUsage, "--context {}: expected 1 to {}", options.context, nn::kLongestContext);
  const std::string name = name_for(options, context);
  const Outside outside = read_outside(options, context);
  const std::string architecture = nn::architecture_of(outside.model);
  const std::string what = fmt::format("{}{} operations, {} tensors", architecture.empty() ? "" : architecture + ", ",
                                       outside.model.graph.nodes.size(), outside.tensors());
  Json json = {{"schema", "mlx.import/1"}, {"from", "model"}, {"dry_run", context.dry_run()}};
  if (!architecture.empty()) json["architecture"] = architecture;
  if (context.dry_run()) {
    context.line(fmt::format("{}  {}  would be imported", context.bold(name), what));
  } else {
    const auto [version, made] = store_model_version(options, name, outside, context.repository());
    const char* status = made ? "imported" : "unchanged";
    context.line(fmt::format("{}  {}  {}  {}", context.bold(version.name()), version.digest.brief(), what, status));
    json["model"] = version.name();
    json["digest"] = version.digest.text();
    json["status"] = status;
  }
  if (context.wants_json()) context.json(json);
  return 0;
}

}  // namespace

Command import_model_command() {
  auto options = std::make_shared<ModelOptions>();
  Command model;
  model.name = "model";
  model.summary = "Make a model of mlx's own files, or of a language model from Hugging Face or in a GGUF file";
  model.dry_run = true;
  model.options = {argument("PATH", options->place, "The folder, or the GGUF file", Complete::kFile),
                   option("--name", "NAME", options->name, "The model's name (default: that of the folder or file)"),
                   integer("--context", "N", options->context,
                           "The longest sequence that a language model takes (default: the model's own)")};
  model.examples = {"mlx import model net", "mlx import model /tmp/net --name clf",
                    "mlx import model Llama-3.2-1B --name lm --context 8192",
                    "mlx import model llama-3.2-1b-q4_0.gguf --name lm"};
  model.run = [options](Context& context) { return import_model(*options, context); };
  return model;
}

}  // namespace mlx::cmd
