// Expects an Error of a given kind, with given words in its message or hint.
#pragma once

#include <string>

#include "base/error.h"

namespace mlx::registry::test {

// "" if `body` throws an Error of `kind` whose message or hint contains `words`, else what happened instead.
template <typename Body>
std::string fails_with(ErrorKind kind, const std::string& words, const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    const std::string text = error.message + " | " + error.hint;
    if (error.kind != kind) return fmt::format("kind {}: {}", static_cast<int>(error.kind), text);
    return text.find(words) == std::string::npos ? "said: " + text : std::string();
  }
  return "did not fail";
}

}  // namespace mlx::registry::test
