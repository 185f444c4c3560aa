// Reads an operation's body without trusting it: bodies come from elsewhere, and a key that is missing or of another
// type reads as empty. For texts, content and undo; what applies an operation reads strictly (application.h).
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

// A view: the JSON outlives it.
class Body {
 public:
  explicit Body(const Json& json) : json_(json) {}
  std::string text(const char* key) const;
  std::int64_t number(const char* key) const;
  std::size_t size(const char* key) const;   // of a list
  std::string brief(const char* key) const;  // "sha256:0123…" in short
  std::string why() const;                   // ": the first line of the message", "" without one
  // The digests that stand in a field. kCorrupt for a text that is none, but where the field allows it.
  void visit(const DigestField& field, const std::function<void(const Digest&)>& visit) const;
  std::optional<Digest> digest(const DigestField& field) const;  // the first

 private:
  const Json& json_;
};

std::string text_in(const Json& body, const char* key);  // "" where no text stands under the key

}  // namespace mlx::registry
