// Lenient access to an operation's body. Bodies come from elsewhere: a key that is missing or of another type reads as
// empty. Used for texts, content and undo; apply functions read strictly (application.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/json_fwd.h"
#include "registry/operations/kind.h"

namespace mlx::registry {

// A view: the JSON must outlive it.
class Body {
 public:
  explicit Body(const Json& json) : json_(json) {}
  std::string text(const char* key) const;
  std::int64_t number(const char* key) const;
  std::size_t size(const char* key) const;   // of a list
  std::string brief(const char* key) const;  // "sha256:0123…" abbreviated
  std::string why() const;                   // ": the first line of the message", or "" without a message
  // Visits the digests in a field. Throws kCorrupt for a text that is not a digest, unless the field allows texts.
  void visit(const DigestField& field, const std::function<void(const Digest&)>& visit) const;
  std::optional<Digest> digest(const DigestField& field) const;  // the first one

 private:
  const Json& json_;
};

std::string text_in(const Json& body, const char* key);  // "" if there is no text under the key

}  // namespace mlx::registry
