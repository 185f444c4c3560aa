// mlx show: everything that is known of one version or one run.
#include <fmt/format.h>

#include <memory>

#include "base/clock.h"
#include "base/json.h"
#include "cmd/describe.h"

namespace mlx::cmd {
namespace {

constexpr std::uint64_t kLargestJson = std::uint64_t{16} << 20;

void field(Context& context, const char* name, const std::string& value) {
  if (!value.empty()) context.line(fmt::format("{:<12}{}", name, value));
}

// A JSON document inside a version or an attachment; null where it is none.
Json read_json(registry::Repository& repository, const Digest& blob, std::uint64_t size, const std::string& what) {
  if (size > kLargestJson) return Json();
  const Bytes bytes = repository.store().read_blob(blob);
  return parse_json(as_text(bytes), what);
}

Json model_summary(registry::Repository& repository, const registry::Version& version) {
  if (version.kind != registry::ArtifactKind::kModel) return Json();
  const std::optional<store::Entry> entry = repository.store().find(version.digest, "model.json");
  if (!entry) return Json();
  Json model = read_json(repository, entry->content, entry->size, version.name() + ":model.json");
  Json summary = Json::object();
  for (const auto& [key, value] : model.items()) {
    // Numbers and names as they are; of what is larger only what people ask for.
    const bool wanted = value.is_primitive() || key == "signature" || key == "labels" || key == "preprocessing";
    if (wanted) summary[key] = value;
  }
  return summary;
}

Json attachments_json(registry::Repository& repository, const registry::Version& version) {
  Json list = Json::array();
  for (const registry::Attachment& attachment : registry::attachments(repository, version.digest)) {
    list.push_back({{"kind", attachment.kind},
                    {"name", attachment.name},
                    {"digest", attachment.blob.text()},
                    {"time", iso_time(attachment.time)}});
  }
  return list;
}

// "clf@v1  sha256:…": a version by name, where it has one here; of `artifact` where several have this content.
std::string version_label(registry::Repository& repository, const Digest& digest, const std::string& artifact = {}) {
  if (const auto own = registry::version_of(repository, artifact, digest)) return own->name() + "  " + digest.text();
  for (const registry::Version& version : registry::versions(repository)) {
    if (version.digest == digest) return version.name() + "  " + digest.text();
  }
  return digest.text();
}

void print_files(Context& context, const std::vector<store::Entry>& entries) {
  constexpr std::size_t kShown = 20;
  context.line("\n" + context.bold("files"));
  for (std::size_t i = 0; i < entries.size() && i < kShown; ++i) {
    context.line(fmt::format("  {:>10}  {}", format_bytes(entries[i].size), printable(entries[i].path)));
  }
  if (entries.size() > kShown) context.line(fmt::format("  and {} more (`mlx ls` lists all)", entries.size() - kShown));
}

int show_version(const std::string& reference, Context& context) {
  registry::Repository& repository = context.repository();
  const registry::Version version = registry::resolve(repository, reference);
  const Json model = model_summary(repository, version), attached = attachments_json(repository, version);
  if (context.wants_json()) {
    Json json = {{"schema", "mlx.show/1"}};
    json.update(version_json(version));
    if (!model.is_null()) json["model"] = model;
    json["attachments"] = attached;
    context.json(json);
    return 0;
  }
  context.line(context.bold(version.name()) + names_text(context, version));
  field(context, "kind", registry::kind_name(version.kind));
  field(context, "digest", version.digest.text());
  field(context, "holds", files_text(version.files, version.bytes));
  field(context, "made", local_time(version.time));
  field(context, "run", version.run.empty() ? "" : "run:" + version.run);
  if (version.parent) field(context, "from", version_label(repository, *version.parent, version.artifact));
  for (const registry::Version& other : registry::versions(repository)) {
    if (other.parent == version.digest && other.digest != version.digest) field(context, "led to", other.name());
  }
  field(context, "message", version.message);
  if (!model.is_null()) {
    for (const auto& [key, value] : model.items()) {
      const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
      field(context, key.c_str(), text.size() > 100 ? text.substr(0, 97) + "..." : text);
    }
  }
  for (const Json& one : attached) {
    field(context, "attached", one["kind"].get<std::string>() + "  " + one["name"].get<std::string>());
  }
  print_files(context, repository.store().entries(version.digest));
  return 0;
}

void print_document(Context& context, const char* title, const std::string& text) {
  if (text.empty()) return;
  const Json document = parse_json(text, title);
  if (!document.is_object() || document.empty()) return;
  context.line("\n" + context.bold(title));
  for (const auto& [key, value] : document.items()) {
    const std::string shown = value.is_string() ? value.get<std::string>() : value.dump();
    context.line(fmt::format("  {:<20}{}", key, shown.size() > 100 ? shown.substr(0, 97) + "..." : shown));
  }
}

int show_run(const std::string& reference, Context& context) {
  const registry::Run run = registry::read_run(context.repository(), reference);
  if (context.wants_json()) {
    Json json = {{"schema", "mlx.show/1"}, {"kind", "run"}};
    json.update(run_json(run));
    context.json(json);
    return 0;
  }
  context.line(context.bold("run:" + run.id));
  field(context, "title", run.title);
  field(context, "status", run.status + (run.error.empty() ? "" : ": " + run.error));
  field(context, "started", local_time(run.started));
  if (run.ended) field(context, "took", duration_text(run.ended - run.started));
  field(context, "key", run.key.text());
  for (const auto& [role, digest] : run.inputs)
    field(context, "input", role + "  " + version_label(context.repository(), digest));
  for (const registry::RunOutput& output : run.outputs)
    field(context, "output", output.role + "  " + version_label(context.repository(), output.version));
  print_document(context, "summary", run.summary);
  print_document(context, "parameters", run.params);
  print_document(context, "environment", run.environment);
  print_document(context, "code", run.code);
  return 0;
}

int run(const std::string& reference, Context& context) {
  context.start_pager();
  return reference.starts_with("run:") ? show_run(reference, context) : show_version(reference, context);
}

}  // namespace

Command add_show() {
  auto reference = std::make_shared<std::string>();
  Command command;
  command.name = "show";
  command.summary = "Show everything that is known of a version or a run";
  command.group = "versions";
  command.options = {argument("REF", *reference, "A version (clf@v2) or a run (run:ID)", Complete::kReference)};
  command.examples = {"mlx show clf@production", "mlx show data/fashion", "mlx show run:3f2a"};
  command.run = [reference](Context& context) { return run(*reference, context); };
  return command;
}

}  // namespace mlx::cmd
