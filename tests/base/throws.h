// Runs a call that must throw mlx::Error and returns the error, so that tests can check its kind, text and hint.
#pragma once

#include <doctest/doctest.h>

#include <optional>

#include "base/error.h"

namespace mlx {

template <typename Call>
Error error_of(Call call) {
  std::optional<Error> caught;
  try {
    call();
  } catch (const Error& error) {
    caught = error;
  }
  REQUIRE_MESSAGE(caught.has_value(), "expected an mlx::Error, got none");
  return *caught;
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace mlx
