// Reads metadata of GGUF files by key: every value has the type and the range that is asked for, or an error names it.
// Used by gguf_config.cpp and gguf_tokenizer.cpp.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "formats/gguf.h"

namespace mlx::nn {

class GgufKeys {
 public:
  // `prefix`: of the keys that are asked for, "llama.". `what`: the file, for messages.
  GgufKeys(const formats::GgufMetadata& metadata, std::string prefix, std::string what)
      : metadata_(metadata), prefix_(std::move(prefix)), what_(std::move(what)) {}

  // nullopt where the key is absent. Throw kCorrupt for a value of another type or out of range.
  std::optional<std::int64_t> integer(const char* key, std::int64_t least, std::int64_t most) const;
  std::optional<double> number(const char* key) const;
  std::optional<bool> boolean(const char* key) const;
  std::optional<std::string> string(const char* key) const;
  std::vector<std::string_view> strings(const char* key) const;  // empty where it is absent
  std::vector<std::int64_t> integers(const char* key) const;
  std::vector<double> numbers(const char* key) const;
  bool has(const char* key) const { return find(key) != nullptr; }
  // Throws kCorrupt where the key is absent.
  std::int64_t needed_integer(const char* key, std::int64_t most) const;

  [[noreturn]] void unsupported(const std::string& found, const std::string& supported) const;
  [[noreturn]] void corrupt(const char* key, const char* expected) const;
  // Throws kUsage for a key with the prefix that nobody has asked for.
  void check_all_read() const;
  const std::string& what() const { return what_; }

 private:
  const formats::GgufValue* find(const char* key) const;

  const formats::GgufMetadata& metadata_;
  std::string prefix_, what_;
  mutable std::set<std::string> read_;
};

}  // namespace mlx::nn
