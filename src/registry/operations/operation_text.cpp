// One sentence a kind. Bodies come from elsewhere: a key that is missing or of another type reads as empty.
#include "registry/operations/operation_text.h"

#include <fmt/format.h>

#include "base/json.h"
#include "base/text.h"

namespace mlx::registry {
namespace {

class Body {
 public:
  explicit Body(const Operation& operation) : json_(parse_json(operation.body, "operation " + operation.id.brief())) {}
  std::string text(const char* key) const {
    const auto found = json_.find(key);
    return found != json_.end() && found->is_string() ? found->get<std::string>() : std::string();
  }
  std::int64_t number(const char* key) const {
    const auto found = json_.find(key);
    return found != json_.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
  }
  std::size_t size(const char* key) const {
    const auto found = json_.find(key);
    return found != json_.end() && found->is_array() ? found->size() : 0;
  }
  // "sha256:0123…" in short
  std::string brief(const char* key) const {
    const std::string digest = text(key);
    return digest.starts_with("sha256:") ? digest.substr(7, 12) : digest;
  }
  // ": the first line of the message", "" without one.
  std::string why() const {
    const std::string message = text("message"), first = message.substr(0, message.find('\n'));
    return first.empty() ? "" : ": " + first;
  }
  void add_digest(const char* key, std::vector<Digest>& to) const {
    if (const std::string digest = text(key); digest.starts_with("sha256:")) to.push_back(Digest::parse(digest));
  }
  void add_digests(const char* key, std::vector<Digest>& to) const {
    const auto list = json_.find(key);
    if (list == json_.end() || !list->is_array()) return;
    for (const Json& item : *list) {
      if (item.is_string() && item.get_ref<const std::string&>().starts_with("sha256:"))
        to.push_back(Digest::parse(item.get_ref<const std::string&>()));
    }
  }
  void add_versions(const char* key, std::vector<Digest>& to) const {
    const auto list = json_.find(key);
    if (list == json_.end() || !list->is_array()) return;
    for (const Json& item : *list) {
      const auto version = item.find("version");
      if (version != item.end() && version->is_string()) to.push_back(Digest::parse(version->get<std::string>()));
    }
  }

 private:
  Json json_;
};

}  // namespace

std::string operation_text(const Operation& operation) {
  const Body body(operation);
  const std::string &kind = operation.kind, artifact = body.text("artifact");
  if (kind == "version.create")
    return fmt::format("made {}@v{} ({}){}", artifact, body.number("number"), body.brief("digest"), body.why());
  if (kind == "version.renumber")
    return fmt::format("renumbered {}@v{} to v{} ({})", artifact, body.number("from"), body.number("to"),
                       body.brief("digest"));
  if (kind == "version.lost")
    return fmt::format("gave up the content of {} as lost", counted(body.size("versions"), "version"));
  if (kind == "alias.move")
    return fmt::format("moved {}@{} to {}{}", artifact, body.text("alias"), body.brief("digest"), body.why());
  if (kind == "tag.create") return fmt::format("tagged {} {} as {}", artifact, body.brief("digest"), body.text("tag"));
  if (kind == "tag.delete")
    return fmt::format("took the tag {} off {} {}", body.text("tag"), artifact, body.brief("digest"));
  if (kind == "attach")
    return fmt::format("attached {} '{}' to {}", body.text("kind"), body.text("name"), body.brief("version"));
  if (kind == "operation.undo") return fmt::format("took back {}", body.brief("operation"));
  if (kind == "actor.describe") return "gave its actor a name";
  if (kind == "actor.forget") return fmt::format("forgot the name of {}", body.text("actor"));
  if (kind == "history.join") return "joined histories that had begun apart";
  if (kind == "run.start") return fmt::format("started run:{}: {}", body.text("run"), body.text("title"));
  if (kind == "run.checkpoint")
    return fmt::format("checkpoint of run:{} at step {}", body.text("run"), body.number("step"));
  if (kind == "run.resume") return fmt::format("resumed run:{} after step {}", body.text("run"), body.number("step"));
  if (kind == "run.end") return fmt::format("ended run:{}: {}", body.text("run"), body.text("status"));
  if (kind == "key.erase") return fmt::format("erased the domain '{}': its key was shredded", body.text("domain"));
  if (kind == "domain.assign") return fmt::format("put {} into the domain '{}'", artifact, body.text("domain"));
  return kind;
}

OperationSubject operation_subject(const Operation& operation) {
  const Body body(operation);
  OperationSubject subject{body.text("artifact"), body.text("run"), {}};
  body.add_digest("digest", subject.versions);
  body.add_digest("version", subject.versions);
  if (operation.kind == "version.lost") body.add_digests("versions", subject.versions);
  body.add_versions("inputs", subject.versions);
  body.add_versions("outputs", subject.versions);
  return subject;
}

}  // namespace mlx::registry
