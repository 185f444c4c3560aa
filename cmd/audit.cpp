// mlx audit: who did what and when, and whether that record is what it was.
#include "registry/maintenance/audit.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "cmd/cli/moment.h"
#include "cmd/describe.h"
#include "registry/keys/trust.h"
#include "registry/operations/history.h"
#include "registry/operations/names.h"
#include "registry/operations/operation_text.h"
#include "registry/record/judge.h"
#include "registry/record/operation_log.h"
#include "registry/record/people.h"
#include "registry/record/remarks.h"
#include "registry/sync/seen_heads.h"
#include "registry/sync/sync.h"
#include "registry/versions/references.h"

namespace mlx::cmd {
namespace {

struct AuditOptions {
  std::string reference, actor, kind, since, until, head, remote;
  std::int64_t limit = std::numeric_limits<std::int64_t>::max();
  bool jsonl = false, message = false, all = false;
};

// What the log shows; an empty or zero condition holds for everything.
struct Filter {
  std::string artifact, actor, kind, run;
  std::optional<Digest> version;
  std::int64_t since = 0, until = INT64_MAX;

  bool takes_all() const {
    return artifact.empty() && actor.empty() && kind.empty() && run.empty() && !version && since == 0 &&
           until == INT64_MAX;
  }
  bool matches(const registry::Kinds& kinds, const registry::Operation& operation) const {
    if (!operation.actor.starts_with(actor) || operation.time < since || operation.time > until) return false;
    if (!kind.empty() && operation.kind != kind && !operation.kind.starts_with(kind + ".")) return false;
    if (artifact.empty() && run.empty() && !version) return true;
    const registry::OperationSubject subject = registry::operation_subject(kinds, operation);
    if (!run.empty()) return subject.run == run;
    if (version) return std::ranges::find(subject.versions, *version) != subject.versions.end();
    return subject.artifact == artifact;
  }
};

// Every kind, and what several begin with.
std::vector<std::string> kinds_and_families() {
  std::vector<std::string> words;
  for (const registry::Kind* const row : registry::known_kinds().rows()) {
    const std::string kind(row->name);
    const std::string family = kind.substr(0, kind.find('.'));
    if (std::ranges::find(words, family) == words.end()) words.push_back(family);
    if (kind != family) words.push_back(kind);
  }
  std::ranges::sort(words);
  return words;
}

Filter filter_of(const AuditOptions& options, registry::Repository& repository) {
  Filter filter;
  filter.actor = options.actor == "me" ? repository.actor() : options.actor;
  if (options.actor == "me" && filter.actor.empty()) filter.actor = "nobody";  // who signs nothing here made nothing
  filter.kind = options.kind;
  if (!options.since.empty()) filter.since = parse_moment(options.since, "--since");
  if (!options.until.empty()) filter.until = parse_moment(options.until, "--until");
  if (options.reference.starts_with("run:")) {
    filter.run = registry::read_run(repository, options.reference).id;
  } else if (!options.reference.empty()) {
    const registry::Version version = registry::resolve(repository, options.reference);
    if (registry::parse_reference(options.reference).selector.empty())
      filter.artifact = version.artifact;
    else
      filter.version = version.digest;
  }
  return filter;
}

Json operation_json(const registry::Kinds& kinds, const registry::LogEntry& entry, const registry::Names& names) {
  const registry::Operation& operation = entry.operation;
  Json parents = Json::array();
  for (const Digest& parent : operation.parents) parents.push_back(parent.text());
  Json json = {{"id", operation.id.text()},
               {"time", iso_time(operation.time)},
               {"signer", operation.is_signed() ? Json(store::ssh_fingerprint(operation.signer)) : Json()},
               {"kind", operation.kind},
               {"text", registry::operation_text(kinds, operation)},
               {"undone", entry.undone},
               {"parents", parents},
               {"body", parse_json(operation.body, "operation " + operation.id.brief())}};
  json.update(author_json(names, operation.actor, operation.id));
  return json;
}

void print_operation(Context& context, const registry::LogEntry& entry, const registry::Names& names) {
  const registry::Operation& operation = entry.operation;
  std::string actor = author_name(names, operation.actor, operation.id);
  registry::Repository& repository = context.repository();
  // Where others work here too, each goes by their id.
  if (actor == repository.actor() && repository.own_actors().size() == 1) actor = "this clone";
  std::string text = printable(registry::operation_text(repository.kinds(), operation));
  if (entry.checkpoints > 1) text += fmt::format(", and {} before it", counted(entry.checkpoints - 1, "other"));
  context.line(fmt::format("{}  {}  {:<16}  {}", context.yellow(operation.id.brief()), local_time(operation.time),
                           context.dim(actor), entry.undone ? context.dim(text + " (taken back)") : text));
}

// One document, an operation at a time: the text that Context::json() would print of the whole.
class LogDocument {
 public:
  explicit LogDocument(Context& context) : context_(context) {
    context_.out("{\n  \"schema\": \"mlx.audit.log/1\",\n  \"operations\": [");
  }
  void add(const Json& operation) {
    context_.out(std::exchange(any_, true) ? ",\n    " : "\n    ");
    for (const char c : json_text(operation, 2)) {
      indented_ += c;
      if (c == '\n') indented_ += "    ";
    }
    context_.out(indented_);
    indented_.clear();
  }
  void end() { context_.out(any_ ? "\n  ]\n}\n" : "]\n}\n"); }

 private:
  Context& context_;
  std::string indented_;
  bool any_ = false;
};

int log(const AuditOptions& options, Context& context) {
  if (options.limit < 0)
    throw Error(ErrorKind::kUsage, fmt::format("audit log: --max-count {} is negative", options.limit));
  registry::Repository& repository = context.repository();
  const Filter filter = filter_of(options, repository);
  const bool as_text = !options.jsonl && !context.wants_json();  // programs get every operation
  // What a training leaves every few minutes is one line a run.
  registry::LogQuery query;
  if (!filter.takes_all())
    query.matches = [&](const registry::Operation& one) { return filter.matches(repository.kinds(), one); };
  const registry::Kind* const asked = repository.kinds().find(options.kind);
  query.fold = as_text && !options.all && !(asked && asked->traits.folded);
  query.most = options.limit;
  std::optional<registry::Names> names;
  std::optional<LogDocument> document;
  const auto begin = [&] {
    if (names) return;
    names.emplace(repository);
    if (!options.jsonl) context.start_pager();
    if (context.wants_json()) document.emplace(context);
  };
  const std::uint64_t count = registry::visit_log(repository, query, [&](const registry::LogEntry& entry) {
    begin();
    if (options.jsonl)
      context.out(json_text(operation_json(repository.kinds(), entry, *names), -1) + "\n");
    else if (document)
      document->add(operation_json(repository.kinds(), entry, *names));
    else
      print_operation(context, entry, *names);
  });
  begin();
  if (count == 0 && !options.jsonl) context.line("no operations");
  if (document) document->end();
  return 0;
}

void require_digits(const std::string& wanted) {
  const std::string digits = wanted.starts_with("sha256:") ? wanted.substr(7) : wanted;
  if (!wanted.empty() && !registry::is_hex_prefix(digits))
    throw Error(ErrorKind::kUsage,
                fmt::format("audit verify: --head {}: expected the hex digits of an operation's id", wanted),
                "`mlx audit verify` prints the heads");
}

// What this clone made and a remote has must be here. What others made may not have been fetched yet.
std::size_t check_remote(const std::string& name, registry::AuditReport& report, Context& context) {
  registry::Repository& repository = context.repository();
  const registry::RemoteConfig remote = registry::pick_remote(repository.root(), name);
  std::optional<registry::RemoteHistory> history;
  try {
    history.emplace(registry::remote_history(repository, remote, context.progress()));
    (void)registry::require_vouched(repository, history->unknown);
  } catch (const Error& error) {
    const bool gone = error.kind == ErrorKind::kNotFound && registry::seen_head(repository, remote);
    const bool refused = error.kind == ErrorKind::kRefused || error.kind == ErrorKind::kCorrupt;
    if (!gone && !refused) throw;
    report.problems.push_back(gone ? error.message
                                   : fmt::format("'{}': a fetch is refused: {}", remote.name, error.message));
    return 0;
  }
  for (const Digest& lost : registry::rolled_back(repository, remote, history->heads, &history->unknown))
    report.problems.push_back(registry::rollback_text(remote, lost));
  std::size_t unfetched = 0;
  history->unknown.visit([&](const registry::Operation& operation) {
    if (!repository.own_actors().contains(operation.actor)) {
      ++unfetched;
      return;
    }
    report.problems.push_back(fmt::format("operation {} ({}) was removed: this clone made it and '{}' has it",
                                          operation.id.brief(), operation.kind, remote.name));
  });
  return unfetched;
}

// The one operation that at least 8 digits of its id name.
registry::Operation find_operation(const std::string& id, registry::Repository& repository) {
  const std::string digits = id.starts_with("sha256:") ? id.substr(7) : id;
  std::vector<registry::Operation> found;
  const auto take = [&](const registry::Operation& one) {
    if (one.id.hex().starts_with(digits)) found.push_back(one);
  };
  if (digits.size() >= 8) registry::visit_operations(repository.db(), take);
  if (found.empty()) {
    throw Error(ErrorKind::kNotFound, fmt::format("no operation has the id '{}'", id),
                "give at least 8 hex digits; `mlx audit log` lists them");
  }
  if (found.size() > 1)
    fail(ErrorKind::kConflict, "{} operations have an id that begins with {}", found.size(), digits);
  return found.front();
}

// For checks with other tools than mlx: the signed bytes, or the signature in OpenSSH's form.
int signature(const AuditOptions& options, Context& context) {
  const registry::Operation operation = find_operation(options.reference, context.repository());
  if (!operation.is_signed())
    throw Error(ErrorKind::kNotFound, fmt::format("nobody has signed operation {}", operation.id.brief()),
                "it was made before operations were signed");
  const std::string armored =
      store::armored_signature(operation.signer, registry::kOperationPurpose, operation.signature);
  const std::string message(as_text(registry::signed_bytes(operation)));
  if (context.wants_json()) {
    context.json({{"schema", "mlx.audit.signature/1"},
                  {"id", operation.id.text()},
                  {"signer", store::ssh_public_key(operation.signer)},
                  {"namespace", registry::kOperationPurpose},
                  {"message", message},
                  {"signature", armored},
                  {"holds", registry::signature_holds(operation)}});
  } else {
    context.out(options.message ? message : armored);
  }
  return registry::signature_holds(operation) ? 0 : 1;
}

int forget(const AuditOptions& options, Context& context) {
  registry::Repository& repository = context.repository();
  const std::string actor = options.actor == "me" ? repository.actor() : options.actor;
  const bool known = registry::has_name(repository, actor);
  if (known) registry::require_may_forget(repository, actor);
  if (known && !context.dry_run()) registry::forget_actor(repository, actor);
  const char* status = !known ? "unchanged" : context.dry_run() ? "would be forgotten" : "forgotten";
  context.line(fmt::format("{}  {}", actor, status));
  if (known) context.say("`mlx gc` removes the name here, `mlx push` lets the others remove it");
  if (context.wants_json()) {
    context.json({{"schema", "mlx.audit.forget/1"},
                  {"actor", actor},
                  {"status", known ? "forgotten" : "unchanged"},
                  {"dry_run", context.dry_run()}});
  }
  return 0;
}

int verify(const AuditOptions& options, Context& context) {
  const std::string root = context.repository().root();
  require_digits(options.head);
  registry::AuditReport report =
      registry::verify_history(root, context.disk(), context.pool(), context.progress(),
                               context.repository().store_options(), options.head, context.environment());
  for (const registry::Remark& remark : registry::remarks(context.repository())) {
    if (remark.ignored) report.notes.push_back(remark.text);
  }
  std::size_t unfetched = 0;
  if (!options.remote.empty() && report.problems.empty()) unfetched = check_remote(options.remote, report, context);
  Json heads = Json::array();
  for (const Digest& head : report.heads) heads.push_back(head.text());
  for (const std::string& problem : report.problems) context.line(context.red(printable(problem)));
  for (const std::string& note : report.notes) context.line(context.yellow(printable(note)));
  if (report.problems.empty()) {
    for (const Digest& head : report.heads) context.line("head " + head.hex());
    context.line(fmt::format("{} and {} made from them are as they were written",
                             counted(report.operations, "operation"), counted(report.rows, "row")));
    if (unfetched)
      context.line(fmt::format("{} has {} not fetched yet", options.remote, counted(unfetched, "operation")));
  }
  if (context.wants_json()) {
    context.json({{"schema", "mlx.audit.verify/1"},
                  {"ok", report.problems.empty()},
                  {"operations", report.operations},
                  {"rows", report.rows},
                  {"heads", heads},
                  {"not_fetched", unfetched},
                  {"problems", report.problems},
                  {"notes", report.notes}});
  }
  if (report.history_lost) return static_cast<int>(ErrorKind::kCorrupt);  // nothing can vouch for what nobody knows
  return report.problems.empty() ? 0 : 1;
}

}  // namespace

Command add_audit() {
  auto options = std::make_shared<AuditOptions>();
  Command logging;
  logging.name = "log";
  logging.summary = "Show who did what, newest first";
  logging.options = {
      optional_argument("REF", options->reference, "Only about this artifact, version or run", Complete::kReference),
      option("--actor", "ID", options->actor, "Only by the actor whose id begins with ID; `me` is this clone"),
      choice("--kind", "KIND", kinds_and_families(), options->kind,
             "Only of this kind, such as alias.move, or family, such as run"),
      option("--since", "TIME", options->since, "Not before this: 2026-01-31, 2026-01-31 12:00, or 3 days"),
      option("--until", "TIME", options->until, "Not after this"),
      integer("--max-count", "N", options->limit, "At most this many"),
      flag("--all", options->all, "Every checkpoint of a run on a line of its own"),
      flag("--jsonl", options->jsonl, "Print one JSON document a line"),
  };
  logging.examples = {"mlx audit log", "mlx audit log clf --kind alias.move",
                      "mlx audit log --since \"7 days\" --actor me"};
  logging.run = [options](Context& context) { return log(*options, context); };

  Command verifying;
  verifying.name = "verify";
  verifying.summary = "Check that nothing was altered, removed or reordered";
  verifying.options = {
      option("--head", "ID", options->head, "An operation that must be part of the history; finds a cut-off end"),
      option("--remote", "NAME", options->remote, "Compare with the operations of a remote too", Complete::kRemote),
  };
  verifying.examples = {"mlx audit verify", "mlx audit verify --head 3f2a9b1c0d4e5f60"};
  verifying.run = [options](Context& context) { return verify(*options, context); };

  Command signing;
  signing.name = "signature";
  signing.summary = "Print the SSH signature of an operation, for ssh-keygen -Y verify";
  signing.options = {argument("OPERATION", options->reference, "At least 8 digits of its id"),
                     flag("--message", options->message, "Print what was signed instead, without a line feed")};
  signing.examples = {
      "mlx audit signature 3f2a9b1c --message >message",
      "mlx audit signature 3f2a9b1c >sig && ssh-keygen -Y verify -f allowed -I ada -n mlx-operation -s sig "
      "<message"};
  signing.run = [options](Context& context) { return signature(*options, context); };

  Command forgetting;
  forgetting.name = "forget";
  forgetting.summary = "Erase the name of an actor; the operations stay under its id";
  forgetting.dry_run = true;
  forgetting.options = {argument("ACTOR", options->actor, "The 16 digits of its id; `me` is this clone")};
  forgetting.run = [options](Context& context) { return forget(*options, context); };

  Command command;
  command.name = "audit";
  command.summary = "Show and check the record of everything that was done";
  command.group = "govern";
  command.subcommands = {logging, verifying, signing, forgetting};
  return command;
}

}  // namespace mlx::cmd
