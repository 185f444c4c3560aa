// See body.h.
#include "registry/operations/body.h"

#include "base/json.h"

namespace mlx::registry {
namespace {

constexpr std::string_view kEach = "[]";

// Visits every value at a place: "a.b" descends into objects, "a[]" into each item of a list.
void visit_at(const Json& json, std::string_view at, const std::function<void(const Json&)>& visit) {
  if (at.empty()) return visit(json);
  if (at.starts_with(kEach)) {
    if (!json.is_array()) return;
    at.remove_prefix(kEach.size());
    if (at.starts_with('.')) at.remove_prefix(1);
    for (const Json& item : json) visit_at(item, at, visit);
    return;
  }
  const std::string_view key = at.substr(0, at.find_first_of(".["));
  if (!json.is_object()) return;
  const auto found = json.find(key);
  if (found == json.end()) return;
  at.remove_prefix(key.size());
  if (at.starts_with('.')) at.remove_prefix(1);
  visit_at(*found, at, visit);
}

}  // namespace

std::string text_in(const Json& body, const char* key) {
  const auto found = body.find(key);
  return found != body.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::string Body::text(const char* key) const {
  return text_in(json_, key);
}

std::int64_t Body::number(const char* key) const {
  const auto found = json_.find(key);
  return found != json_.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
}

std::size_t Body::size(const char* key) const {
  const auto found = json_.find(key);
  return found != json_.end() && found->is_array() ? found->size() : 0;
}

std::string Body::brief(const char* key) const {
  constexpr std::string_view kAlgorithm = "sha256:";
  constexpr std::size_t kBrief = 12;
  const std::string digest = text(key);
  return digest.starts_with(kAlgorithm) ? digest.substr(kAlgorithm.size(), kBrief) : digest;
}

std::string Body::why() const {
  const std::string message = text("message"), first = message.substr(0, message.find('\n'));
  return first.empty() ? "" : ": " + first;
}

void Body::visit(const DigestField& field, const std::function<void(const Digest&)>& visit) const {
  visit_at(json_, field.at, [&](const Json& value) {
    if (!value.is_string()) return;
    const auto& text = value.get_ref<const std::string&>();
    if (field.or_text && !text.starts_with("sha256:")) return;
    visit(Digest::parse(text));
  });
}

std::optional<Digest> Body::digest(const DigestField& field) const {
  std::optional<Digest> first;
  visit(field, [&](const Digest& digest) {
    if (!first) first = digest;
  });
  return first;
}

}  // namespace mlx::registry
