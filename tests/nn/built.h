// Builds models from TOML text and captures errors of calls. Shared by the tests of nn.
#pragma once

#include <doctest/doctest.h>

#include <string>

#include "base/error.h"
#include "nn/family.h"

namespace mlx::nn {

inline Built built(const std::string& model, const InputSpec& input = InputSpec::images(28, 28, 1, 10)) {
  const TomlNode root = parse_toml("[model]\n" + model, "t.toml");
  TomlReader top(root, "t.toml", "");
  return build(top.table("model"), input);
}

template <typename Call>
std::string complaint(Call call, ErrorKind kind) {
  try {
    call();
  } catch (const Error& error) {
    CHECK_MESSAGE(error.kind == kind, error.message);
    return error.message + (error.hint.empty() ? "" : " | " + error.hint);
  }
  return "no error";
}

inline std::string dims_of(const graph::Graph& graph, const char* name) {
  const graph::ValueId id = graph.find(name);
  REQUIRE_MESSAGE(id != graph::kNone, name);
  return graph::to_text(graph, graph.value(id).dims);
}

inline bool says(const std::string& message, const std::string& part) {
  const bool found = message.find(part) != std::string::npos;
  if (!found) MESSAGE("got: " << message);
  return found;
}

}  // namespace mlx::nn
