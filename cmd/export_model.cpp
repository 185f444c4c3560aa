// See export_model.h.
#include "cmd/export_model.h"

#include <fmt/format.h>

#include <memory>

#include "base/byte_size.h"
#include "base/error.h"
#include "base/json.h"
#include "base/path.h"
#include "base/text.h"
#include "cmd/describe.h"
#include "cmd/outside_output.h"
#include "convert/gguf_writer.h"
#include "convert/hugging_face_writer.h"
#include "convert/peft_writer.h"
#include "graph/passes/passes.h"
#include "work/inputs.h"

namespace mlx::cmd {
namespace {

struct ModelExport {
  std::string reference, format, out, dtype, shard, base;
};

// Options of one format only.
void check_export_options(const ModelExport& options) {
  const auto only = [&](const std::string& value, const char* option, const char* format, const char* of) {
    if (!value.empty() && options.format != format)
      fail(ErrorKind::kUsage, "{} is for --format {}: {}", option, format, of);
  };
  only(options.shard, "--shard", "hf", "others are one file");
  only(options.base, "--base", "peft", "others are whole models");
  if (!options.dtype.empty() && options.format == "peft")
    fail(ErrorKind::kUsage, "--dtype is for --format hf and gguf: adapters are written as they are");
  if (options.out == "-") fail(ErrorKind::kUsage, "--out -: a model is not written to standard output; name a place");
}

convert::WriteOptions write_options(const ModelExport& options) {
  constexpr std::uint64_t kLeastShard = 1 << 10;
  convert::WriteOptions out;
  if (options.dtype == "f32") out.dtype = kernels::DType::kF32;
  if (options.dtype == "f16") out.dtype = kernels::DType::kF16;
  if (options.dtype == "bf16") out.dtype = kernels::DType::kBF16;
  if (!options.shard.empty()) out.shard = parse_byte_size(options.shard);
  if (out.shard < kLeastShard) fail(ErrorKind::kUsage, "--shard {}: expected at least 1KiB", options.shard);
  out.base = options.base;
  return out;
}

convert::WrittenModel files_of(const ModelExport& options, const nn::Model& model, const std::string& name,
                               const std::string& path) {
  const convert::WriteOptions write = write_options(options);
  if (options.format == "gguf") return convert::gguf_file(model, write, name, base_name(path));
  return options.format == "hf" ? convert::hugging_face_folder(model, write, name)
                                : convert::peft_folder(model, write, name);
}

Json json_of(const ModelExport& options, const registry::Version& version, const convert::WrittenModel& written,
             const char* status, bool dry_run) {
  Json files = Json::array();
  std::uint64_t bytes = 0;
  for (const convert::OutsideFile& file : written.files) {
    files.push_back({{"name", file.name}, {"bytes", file.size()}});
    bytes += file.size();
  }
  return {{"schema", "mlx.export/1"},
          {"to", options.format},
          {"version", version.name()},
          {"digest", version.digest.text()},
          {"architecture", written.architecture},
          {"tensors", written.tensors},
          {"out", options.out},
          {"files", files},
          {"bytes", bytes},
          {"warnings", written.warnings},
          {"status", status},
          {"dry_run", dry_run}};
}

int export_model(const ModelExport& options, Context& context) {
  check_export_options(options);
  registry::Repository& repository = context.repository();
  const registry::Version version = work::resolve_model(repository, options.reference);
  const std::string path = absolute_path(join_path(context.folder(), options.out));
  if (path.starts_with(repository.mlx_folder() + "/"))
    throw Error(ErrorKind::kUsage, fmt::format("--out {}: inside the repository's own files", printable(options.out)),
                "name a place outside of .mlx");
  const bool folder = options.format != "gguf";
  const nn::Model model = nn::load_model_as_stored(repository.store(), version.digest);
  if (graph::is_encoder(model.graph))
    throw Error(ErrorKind::kUsage, fmt::format("{} is an encoder: only language models are exported", version.name()),
                fmt::format("`mlx checkout {} --to FOLDER` writes its weights as safetensors", version.name()));
  const convert::WrittenModel written = files_of(options, model, version.name(), path);
  const bool there = is_written(path, folder, written.files, context);
  if (!there && !context.dry_run()) write_outside(path, folder, written.files, context);
  for (const std::string& warning : written.warnings) context.progress().warn(warning);
  const char* const status = there ? "unchanged" : context.dry_run() ? "would be exported" : "exported";
  const Json json = json_of(options, version, written, there ? "unchanged" : "exported", context.dry_run());
  context.line(fmt::format("{} -> {}  {}, {} tensors, {}  {}", context.bold(printable(version.name())),
                           printable(options.out), written.architecture, written.tensors,
                           files_text(written.files.size(), json["bytes"].get<std::uint64_t>()), status));
  if (context.wants_json()) context.json(json);
  return 0;
}

}  // namespace

Command export_model_command() {
  auto options = std::make_shared<ModelExport>();
  Option format = choice("--format", "FORMAT", {"hf", "gguf", "peft"}, options->format,
                         "hf: a folder for transformers; gguf: a file for llama.cpp; peft: adapters for peft");
  format.required = true;
  Option out = option("-o,--out", "PATH", options->out, "The new folder, or the new file of gguf", Complete::kFile);
  out.required = true;
  Command model;
  model.name = "model";
  model.summary = "Write a language model for transformers, llama.cpp or peft";
  model.dry_run = true;
  model.options = {argument("REF", options->reference, "The version of a language model", Complete::kReference),
                   std::move(format),
                   std::move(out),
                   choice("--dtype", "TYPE", {"f32", "f16", "bf16"}, options->dtype,
                          "Write all weights in this type (default: each as it is stored)"),
                   option("--shard", "SIZE", options->shard, "The most weights in one file of hf (default: 5GB)"),
                   option("--base", "NAME", options->base,
                          "The folder or name of the model that adapters of peft are for, written to their config")};
  model.examples = {"mlx export model lm@v3 --format hf --out lm-hf",
                    "mlx export model lm@v3 --format gguf --out lm.gguf",
                    "mlx export model tuned --format peft --base lm-hf --out adapters"};
  model.run = [options](Context& context) { return export_model(*options, context); };
  return model;
}

}  // namespace mlx::cmd
