// mlx show: everything that is known of one version or one run.
#include <fmt/format.h>

#include <memory>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "cmd/describe.h"
#include "cmd/quantization_text.h"
#include "cmd/show_layers.h"
#include "cmd/show_metric.h"
#include "cmd/show_rank_log.h"
#include "cmd/show_ranks.h"
#include "registry/record/people.h"
#include "registry/record/remarks.h"
#include "registry/sync/claims.h"
#include "registry/sync/fetch_on_demand.h"
#include "registry/versions/references.h"
#include "store/pack/usage.h"

namespace mlx::cmd {
namespace {

constexpr std::uint64_t kLargestJson = std::uint64_t{16} << 20;

struct ShowOptions {
  std::string reference, metric, rank_log;
  bool stat = false, csv = false;
};

void field(Context& context, const char* name, const std::string& value) {
  if (!value.empty()) context.line(fmt::format("{:<14}{}", name, value));
}

// A JSON document inside a version or an attachment; null if it is not JSON.
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
    // Numbers and names as they are; of larger values only the usual parts.
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
                    {"actor", attachment.actor},
                    {"time", iso_time(attachment.time)}});
  }
  return list;
}

Json makings_json(registry::Repository& repository, const registry::Version& version) {
  Json list = Json::array();
  for (const registry::Making& making : registry::makings(repository, version))
    list.push_back({{"actor", making.actor}, {"message", making.message}, {"time", iso_time(making.time)}});
  return list;
}

Json remarks_json(registry::Repository& repository, const registry::Version& version) {
  Json list = Json::array();
  for (const registry::Remark& remark : registry::remarks_on(repository, version.digest))
    list.push_back({{"operation", remark.operation.id.text()}, {"no_effect", remark.ignored}, {"text", remark.text}});
  return list;
}

// Wrong numbers of files and bytes in operations, if its list of files is here and can be read.
std::vector<std::string> false_claims(registry::Repository& repository, const registry::Version& version) try {
  if (!repository.store().has(store::ObjectKind::kManifest, version.digest)) return {};
  return registry::false_claims_of(repository, repository.store().summarize(version.digest));
} catch (const Error& error) {
  if (error.kind != ErrorKind::kCorrupt && error.kind != ErrorKind::kRefused) throw;
  return {};
}

std::string person_name(const registry::Names& names, const std::string& actor) {
  const registry::Person* const person = names.of(actor);
  return person ? person->name : actor;
}

// Who made the same version without knowing that it was there.
void show_other_makers(Context& context, const registry::Version& version, const registry::Names& names) {
  const std::vector<registry::Making> makings = registry::makings(context.repository(), version);
  for (std::size_t i = 1; i < makings.size(); ++i) {
    const registry::Making& also = makings[i];
    field(context, "also by",
          fmt::format("{}  {}{}{}", author_name(names, also.actor, also.operation), local_time(also.time),
                      also.message.empty() ? "" : "  ", also.message));
  }
}

// "clf@v1  sha256:…": a version by its name here, if any; that of `artifact` if several have this content.
std::string version_label(registry::Repository& repository, const Digest& digest, const std::string& artifact = {}) {
  if (const auto own = registry::version_of(repository, artifact, digest)) return own->name() + "  " + digest.text();
  for (const registry::Version& version : registry::versions(repository)) {
    if (version.digest == digest) return version.name() + "  " + digest.text();
  }
  return digest.text();
}

// What the version takes in this store, against every other version that is known here.
store::Usage usage_of(registry::Repository& repository, const registry::Version& version) {
  std::vector<Digest> others;
  for (const registry::Version& other : registry::versions(repository)) {
    if (other.digest != version.digest) others.push_back(other.digest);
  }
  return store::usage(repository.store(), version.digest, others);
}

Json usage_json(const store::Usage& usage) {
  return {{"logical_bytes", usage.logical},
          {"unique_bytes", usage.unique},
          {"stored_bytes", usage.stored},
          {"shared_bytes", usage.shared},
          {"own_bytes", usage.stored - usage.shared},
          {"objects", usage.objects},
          {"deltas", usage.deltas},
          {"missing_objects", usage.missing}};
}

void print_usage(Context& context, const store::Usage& usage) {
  const auto share = [](std::uint64_t part, std::uint64_t whole) {
    return whole == 0 ? std::string()
                      : fmt::format("  {:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
  };
  const auto row = [&](const char* name, std::uint64_t bytes, const std::string& rest) {
    context.line(fmt::format("  {:<10}{:>10}{}", name, format_bytes(bytes), rest));
  };
  context.line("\n" + context.bold("storage"));
  row("logical", usage.logical, "  bytes of its files");
  if (usage.unique != usage.logical)
    row("unique", usage.unique, share(usage.unique, usage.logical) + " once doubles are taken out");
  row("stored", usage.stored,
      share(usage.stored, usage.logical) +
          fmt::format(" in {}{}", counted(usage.objects, "object"),
                      usage.deltas ? fmt::format(", {} of them deltas", usage.deltas) : ""));
  row("shared", usage.shared, share(usage.shared, usage.stored) + " of that with other versions");
  row("own", usage.stored - usage.shared,
      share(usage.stored - usage.shared, usage.stored) + " needed by this version alone");
  if (usage.missing)
    context.line(
        fmt::format("  {} not here: `mlx fetch --all` brings what is missing", counted(usage.missing, "object")));
}

void print_files(Context& context, const std::vector<store::Entry>& entries) {
  constexpr std::size_t kShown = 20;
  context.line("\n" + context.bold("files"));
  for (std::size_t i = 0; i < entries.size() && i < kShown; ++i) {
    context.line(fmt::format("  {:>10}  {}", format_bytes(entries[i].size), printable(entries[i].path)));
  }
  if (entries.size() > kShown) context.line(fmt::format("  and {} more (`mlx ls` lists all)", entries.size() - kShown));
}

// Every move of an alias to the version, oldest first.
std::vector<registry::AliasMove> moves_to(registry::Repository& repository, const registry::Version& version) {
  std::vector<registry::AliasMove> moves = registry::alias_moves(repository, version.artifact);
  std::erase_if(moves, [&](const registry::AliasMove& move) { return move.digest != version.digest; });
  return moves;
}

void print_moves(Context& context, const registry::Names& names, const registry::Version& version) {
  for (const registry::AliasMove& move : moves_to(context.repository(), version)) {
    field(context, "promoted",
          fmt::format("{} on {} by {}{}", move.alias, local_time(move.time),
                      author_name(names, move.actor, move.operation), move.message.empty() ? "" : ": " + move.message));
  }
}

Json moves_json(registry::Repository& repository, const registry::Names& names, const registry::Version& version) {
  Json list = Json::array();
  for (const registry::AliasMove& move : moves_to(repository, version)) {
    list.push_back({{"alias", move.alias},
                    {"time", iso_time(move.time)},
                    {"author", author_json(names, move.actor, move.operation)},
                    {"message", move.message},
                    {"operation", move.operation.text()}});
  }
  return list;
}

int show_version(const std::string& reference, bool stat, Context& context) {
  registry::Repository& repository = context.repository();
  const registry::Version version = registry::resolve(repository, reference);
  const std::optional<registry::Erasure> erasure = registry::erasure_of(repository, version.digest);
  if (!erasure) registry::need_files_of(repository, version.name(), version.digest);
  const Json model = erasure ? Json() : model_summary(repository, version);
  const Json attached = attachments_json(repository, version);
  const Json quantizations = erasure ? Json::array() : quantizations_of(repository, version);
  const registry::Names names(repository);
  std::optional<ModelLayers> layers;
  if (!model.is_null()) layers = model_layers(repository, version);
  if (context.wants_json()) {
    Json json = {{"schema", "mlx.show/1"}};
    json.update(version_json(version));
    json["author"] = author_json(names, version.actor, version.operation);
    json["erased"] = erasure_json(erasure);
    json["moves"] = moves_json(repository, names, version);
    if (!model.is_null()) json["model"] = model;
    if (layers) add_layers(json, *layers);
    json["attachments"] = attached;
    if (!quantizations.empty()) json["quantizations"] = quantizations;
    json["made_by"] = makings_json(repository, version);
    json["remarks"] = remarks_json(repository, version);
    json["false_claims"] = false_claims(repository, version);
    if (stat && !erasure) json["storage"] = usage_json(usage_of(repository, version));
    context.json(json);
    return 0;
  }
  context.line(context.bold(version.name()) + names_text(context, version));
  field(context, "kind", registry::kind_name(version.kind));
  field(context, "digest", version.digest.text());
  field(context, "holds", files_text(version.files, version.bytes));
  field(context, "made", version.number > 0 ? local_time(version.time) : "not committed");
  if (!version.operation.is_zero()) field(context, "by", author_text(names, version.actor, version.operation));
  show_other_makers(context, version, names);
  field(context, "run", version.run.empty() ? "" : "run:" + version.run);
  if (version.parent) field(context, "from", version_label(repository, *version.parent, version.artifact));
  for (const registry::Version& other : registry::versions(repository)) {
    if (other.parent == version.digest && other.digest != version.digest) field(context, "led to", other.name());
  }
  field(context, "message", version.message);
  print_moves(context, names, version);
  if (erasure) field(context, "erased", context.red(erasure_text(*erasure)));
  for (const registry::Remark& remark : registry::remarks_on(repository, version.digest))
    field(context, "remark", remark.text);
  for (const std::string& wrong : false_claims(repository, version)) field(context, "not so", wrong);
  if (!model.is_null()) {
    for (const auto& [key, value] : model.items()) {
      const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
      field(context, key.c_str(), text.size() > 100 ? text.substr(0, 97) + "..." : text);
    }
  }
  for (const Json& one : attached) {
    field(context, "attached",
          fmt::format("{}  {}  by {}", one["kind"].get<std::string>(), one["name"].get<std::string>(),
                      person_name(names, one["actor"].get<std::string>())));
  }
  for (const Json& record : quantizations) {
    context.line("\n" + context.bold("quantization"));
    print_quantization(context, record, true);
  }
  if (layers) print_layers(context, *layers);
  if (erasure) return 0;
  if (stat) print_usage(context, usage_of(repository, version));
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
  const registry::Names names(context.repository());
  if (context.wants_json()) {
    Json json = {{"schema", "mlx.show/1"}, {"kind", "run"}};
    json.update(run_json(context.repository(), run));
    json["author"] = author_json(names, run.actor, run.operation);
    json["logs"] = logs_json(context.repository(), run.id);
    context.json(json);
    return 0;
  }
  context.line(context.bold("run:" + run.id));
  field(context, "title", run.title);
  field(context, "status", name_of(run.status) + (run.error.empty() ? "" : ": " + run.error));
  field(context, "started", local_time(run.started));
  field(context, "by", author_text(names, run.actor, run.operation));
  if (run.ended) field(context, "took", duration_text(run.ended - run.started));
  field(context, "key", run.key.text());
  for (const auto& [role, digest] : run.inputs)
    field(context, "input", role + "  " + version_label(context.repository(), digest));
  for (const registry::RunOutput& output : run.outputs)
    field(context, "output", output.role + "  " + version_label(context.repository(), output.version));
  print_document(context, "summary", run.summary);
  print_ranks(context, run);
  print_log_list(context, run.id);
  print_document(context, "parameters", run.params);
  print_document(context, "environment", run.environment);
  print_document(context, "code", run.code);
  return 0;
}

int run_show(const ShowOptions& options, Context& context) {
  const bool is_run = options.reference.starts_with("run:");
  if (is_run && options.stat)
    throw Error(ErrorKind::kUsage, "--stat: a run stores nothing of its own", "name a version");
  if (!is_run && !options.metric.empty())
    throw Error(ErrorKind::kUsage, "--metric: a version has no metrics",
                "name a run: mlx show run:ID --metric train/loss");
  if (!is_run && !options.rank_log.empty())
    throw Error(ErrorKind::kUsage, "--rank-log: a version has no ranks", "name a run: mlx show run:ID --rank-log 0");
  if (options.csv && options.metric.empty())
    throw Error(ErrorKind::kUsage, "--csv: only with --metric", "add --metric train/loss");
  if (!options.metric.empty()) return show_metric(options.reference, options.metric, options.csv, context);
  if (!options.rank_log.empty()) return show_rank_log(options.reference, options.rank_log, context);
  context.start_pager();
  return is_run ? show_run(options.reference, context) : show_version(options.reference, options.stat, context);
}

}  // namespace

Command add_show() {
  auto options = std::make_shared<ShowOptions>();
  Command command;
  command.name = "show";
  command.summary = "Show everything that is known of a version or a run";
  command.group = "versions";
  command.options = {
      argument("REF", options->reference, "A version (clf@v2) or a run (run:ID)", Complete::kReference),
      flag("--stat", options->stat, "Also show its size in the store, and what it shares with other versions"),
      option("--metric", "NAME", options->metric, "For a run: print one metric, such as train/loss, step by step"),
      flag("--csv", options->csv, "Print the metric as CSV"),
      option("--rank-log", "N", options->rank_log,
             "For a run on several ranks: print what rank N wrote to stderr; all for every rank")};
  command.examples = {"mlx show clf@production", "mlx show --stat data/fashion", "mlx show run:3f2a",
                      "mlx show run:3f2a --metric valid/accuracy --csv"};
  command.run = [options](Context& context) { return run_show(*options, context); };
  return command;
}

}  // namespace mlx::cmd
