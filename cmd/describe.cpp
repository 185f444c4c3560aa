// The shared looks of listings.
#include "cmd/describe.h"

#include <fmt/format.h>

#include <ctime>

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "store/worktree/moves.h"

namespace mlx::cmd {

std::string split_text(registry::Repository& repository, const Digest& data, const std::string& split) {
  std::string name = data.brief();
  for (const registry::Version& version : registry::versions(repository))
    if (version.digest == data) name = version.name();
  return name + " " + printable(split);
}

Json version_json(const registry::Version& version) {
  Json json = {{"name", version.name()},
               {"artifact", version.artifact},
               {"kind", registry::kind_name(version.kind)},
               {"number", version.number},
               {"digest", version.digest.text()},
               {"files", version.files},
               {"bytes", version.bytes},
               {"message", version.message},
               {"time", version.number > 0 ? Json(iso_time(version.time)) : Json()},
               {"actor", version.actor},
               {"aliases", version.aliases},
               {"tags", version.tags}};
  json["run"] = version.run.empty() ? Json() : Json("run:" + version.run);
  json["parent"] = version.parent ? Json(version.parent->text()) : Json();
  return json;
}

Json erasure_json(const std::optional<registry::Erasure>& erasure) {
  if (!erasure) return Json();
  return {{"time", iso_time(erasure->time)}, {"actor", erasure->actor}, {"domain", erasure->domain}};
}

std::string erasure_text(const registry::Erasure& erasure) {
  return fmt::format("on {} by {}, with the domain '{}'", local_time(erasure.time), erasure.actor, erasure.domain);
}

Json run_json(registry::Repository& repository, const registry::Run& run) {
  const auto parsed = [](const std::string& text) { return text.empty() ? Json() : parse_json(text, "run"); };
  Json inputs = Json::array(), outputs = Json::array(), made = Json::array();
  for (const auto& [role, digest] : run.inputs) inputs.push_back({{"role", role}, {"digest", digest.text()}});
  for (const registry::RunOutput& output : run.outputs) {
    outputs.push_back({{"role", output.role}, {"digest", output.version.text()}});
  }
  for (const registry::Version& version : registry::made_by(repository, run)) made.push_back(version.name());
  return {{"id", "run:" + run.id},
          {"command", run.command},
          {"title", run.title},
          {"status", name_of(run.status)},
          {"key", run.key.text()},
          {"started", iso_time(run.started)},
          {"ended", run.ended ? Json(iso_time(run.ended)) : Json()},
          {"seconds", run.ended ? Json(static_cast<double>(run.ended - run.started) / 1e6) : Json()},
          {"actor", run.actor},
          {"error", run.error},
          {"inputs", inputs},
          {"outputs", outputs},
          {"versions", made},
          {"params", parsed(run.params)},
          {"environment", parsed(run.environment)},
          {"code", parsed(run.code)},
          {"summary", parsed(run.summary)}};
}

Json entry_json(const store::Entry& entry) {
  Json json = {{"path", entry.path},
               {"mode", fmt::format("{:06o}", entry.mode)},
               {"bytes", entry.size},
               {"digest", entry.content.text()}};
  if (!is_utf8(entry.path)) json["path_hex"] = to_hex(as_bytes(entry.path));
  return json;
}

Json difference_json(const store::Difference& difference) {
  Json added = Json::array(), modified = Json::array(), deleted = Json::array(), moved = Json::array();
  Json mode_changed = Json::array();
  for (const store::Entry& entry : difference.added) added.push_back(entry_json(entry));
  for (const auto& [before, after] : difference.changed) {
    modified.push_back(entry_json(after));
    if (before.content != after.content) continue;
    Json one = entry_json(after);
    one["mode_before"] = fmt::format("{:06o}", before.mode);
    mode_changed.push_back(std::move(one));
  }
  for (const store::Entry& entry : difference.removed) deleted.push_back(entry_json(entry));
  store::Difference rest = difference;
  for (const auto& [before, after] : store::take_moves(rest)) {
    moved.push_back({{"from", entry_json(before)}, {"to", entry_json(after)}});
  }
  return {
      {"new", added}, {"modified", modified}, {"deleted", deleted}, {"moved", moved}, {"mode_changed", mode_changed}};
}

std::string author_name(const registry::Names& names, const std::string& actor, const Digest& operation) {
  const registry::Person* person = names.of(actor, operation);
  const std::string name = person ? printable(person->name) : "";
  return name.empty() ? actor : name;
}

std::string author_text(const registry::Names& names, const std::string& actor, const Digest& operation) {
  const registry::Person* person = names.of(actor, operation);
  const std::string email = person ? printable(person->email) : "";
  return author_name(names, actor, operation) + (email.empty() ? "" : fmt::format(" <{}>", email));
}

Json author_json(const registry::Names& names, const std::string& actor, const Digest& operation) {
  const registry::Person* person = names.of(actor, operation);
  return {{"actor", actor},
          {"name", person ? Json(person->name) : Json()},
          {"email", person ? Json(person->email) : Json()},
          {"host", person ? Json(person->host) : Json()}};
}

std::string files_text(std::uint64_t files, std::uint64_t bytes) {
  return fmt::format("{}, {}", counted(files, "file"), format_bytes(bytes));
}

std::string names_text(Context& context, const registry::Version& version) {
  std::string text;
  for (const std::string& alias : version.aliases) text += (text.empty() ? "" : ", ") + alias;
  for (const std::string& tag : version.tags) text += (text.empty() ? "tag: " : ", tag: ") + tag;
  return text.empty() ? "" : " " + context.yellow("(" + text + ")");
}

std::string local_time(std::int64_t unix_micros) {
  const std::time_t seconds = unix_micros / 1'000'000;
  std::tm parts{};
  localtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                     parts.tm_hour, parts.tm_min);
}

std::string duration_text(std::int64_t micros) {
  const double seconds = static_cast<double>(micros) / 1e6;
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::int64_t>(seconds);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole / 60 % 60);
}

void print_difference(Context& context, const store::Difference& difference, std::size_t limit) {
  store::Difference rest = difference;
  const store::Moves moves = store::take_moves(rest);
  const std::size_t all = rest.added.size() + rest.changed.size() + moves.size() + rest.removed.size();
  std::size_t shown = 0;
  const auto show = [&](const char* what, const std::string& text, bool gone) {
    if (shown++ >= limit) return;
    const std::string line = fmt::format("    {:<10}{}", what, text);
    context.line(gone ? context.red(line) : context.green(line));
  };
  for (const store::Entry& entry : rest.added) show("new", printable(entry.path), false);
  for (const auto& [before, after] : rest.changed) {
    const std::string modes = fmt::format(" ({:o} -> {:o})", before.mode & 0777, after.mode & 0777);
    const bool only_mode = before.content == after.content && (before.mode & 0777) != (after.mode & 0777);
    show(only_mode ? "mode" : "modified", printable(after.path) + (only_mode ? modes : ""), false);
  }
  for (const auto& [before, after] : moves) {
    show("moved", fmt::format("{} -> {}", printable(before.path), printable(after.path)), false);
  }
  for (const store::Entry& entry : rest.removed) show("deleted", printable(entry.path), true);
  if (all > limit) context.line(fmt::format("    and {} more (`mlx status -v` lists all)", all - limit));
}

}  // namespace mlx::cmd
