// The keys of a config.json, each with bounds. Used by decoder_config.cpp, encoder_config.cpp and their neighbours.
//
// Nothing in such a file is trusted: every number has bounds, so that no size computed from them overflows.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace mlx::nn {

inline constexpr std::int64_t kMostWide = 1 << 20, kMostLayers = 1024, kMostHeads = 1 << 16, kMostVocabulary = 1 << 26;
inline constexpr std::int64_t kMostPositions = std::int64_t{1} << 40;

// The keys of an object; null is the same as an absent key. All throw kCorrupt, naming `what` and the key.
struct ConfigKeys {
  const Json& object;
  std::string what;

  const Json* find(const char* key) const;
  const Json& needed(const char* key) const;
  std::int64_t integer(const char* key, std::int64_t most, std::optional<std::int64_t> fallback = {}) const;  // from 1
  float number(const char* key, double least, double most, std::optional<double> fallback = {}) const;
  bool boolean(const char* key, bool fallback) const;
  std::string string(const char* key, const char* fallback) const;
  static std::string shown(const Json& value);
  // kUsage, with what there is.
  [[noreturn]] void unsupported(const std::string& found, const std::string& supported) const;
};

// Throws as unsupported() unless `name` is in `known`. `what`: "the activation".
void check_one_of(const ConfigKeys& keys, const char* what, const std::string& name,
                  std::initializer_list<std::string_view> known, const char* supported);
// The one name under "architectures".
std::string architecture_named_by(const ConfigKeys& keys);
[[noreturn]] void refuse_architecture(const ConfigKeys& keys, const std::string& name,
                                      const std::vector<std::string>& known);
// Weights in a form of their own, such as GPTQ's, do not fit what the architecture says: they are refused.
void check_not_quantized(const ConfigKeys& keys);
// The longest sequence to take: `asked`, or the model's own if it is 0. Throws kUsage if it is too long.
std::int64_t context_within(const ConfigKeys& keys, std::int64_t own, std::int64_t asked);

}  // namespace mlx::nn
