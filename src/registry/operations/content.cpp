// Reads content's digests out of the bodies of operations.
#include "registry/operations/content.h"

#include "base/error.h"
#include "base/json.h"

namespace mlx::registry {
namespace {

// The patch of what was not committed when a run started: code.diff, where it is a digest.
std::optional<Digest> code_diff(const Json& body) {
  const auto code = body.find("code");
  if (code == body.end() || !code->is_object()) return std::nullopt;
  const auto diff = code->find("diff");
  if (diff == code->end() || !diff->is_string() || !diff->get_ref<const std::string&>().starts_with("sha256:"))
    return std::nullopt;
  return Digest::parse(diff->get_ref<const std::string&>());
}

void add_content(const Operation& operation, const Wanted& wanted, Content& content) {
  const auto add = [](std::vector<Digest>& to, const std::optional<Digest>& id) {
    if (id) to.push_back(*id);
  };
  const Json body = parse_json(operation.body, "operation " + operation.id.brief());
  if (wanted && !wanted(operation, body)) return;
  if (operation.kind == "version.create") {
    const std::optional<Digest> digest = digest_in(body, "digest");
    add(content.manifests, digest);
    const auto artifact = body.find("artifact");
    if (digest && artifact != body.end() && artifact->is_string())
      content.versions.emplace_back(artifact->get<std::string>(), *digest);
  }
  if (operation.kind == "run.end") add(content.series, digest_in(body, "metrics"));
  if (operation.kind == "attach") add(content.others, digest_in(body, "blob"));
  if (operation.kind == "run.start") add(content.others, code_diff(body));
  if (operation.kind == "actor.describe") add(content.others, digest_in(body, "blob"));
}

}  // namespace

std::string text_in(const Json& body, const char* key) {
  const auto found = body.find(key);
  return found != body.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::optional<Digest> digest_in(const Json& body, const char* key) {
  const auto found = body.find(key);
  if (found == body.end() || !found->is_string()) return std::nullopt;
  return Digest::parse(found->get_ref<const std::string&>());
}

Content content_of(const std::vector<Operation>& operations, const Wanted& wanted) {
  Content content;
  for (const Operation& operation : operations) add_content(operation, wanted, content);
  return content;
}

Content content_of(OperationStage& operations, const Wanted& wanted) {
  Content content;
  operations.visit([&](const Operation& operation) { add_content(operation, wanted, content); });
  return content;
}

std::optional<Digest> code_diff_of(const std::string& code) {
  if (code.empty()) return std::nullopt;
  return code_diff(Json{{"code", parse_json(code, "code of a run")}});
}

}  // namespace mlx::registry
