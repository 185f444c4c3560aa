#include "base/manifest_text.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/error.h"
#include "base/text.h"

namespace mlx {
namespace {

void write_yaml(const Json& value, const std::string& indent, std::string& out) {
  if (!value.is_structured() || value.empty()) {
    out += " " + value.dump(-1, ' ', true) + "\n";  // escapes are the same everywhere
    return;
  }
  if (!out.empty()) out += "\n";
  if (value.is_array()) {
    for (const Json& item : value) {
      out += indent + "-";
      // The first key of a mapping stands beside the dash.
      std::string inner;
      write_yaml(item, indent + "  ", inner);
      out += item.is_structured() && !item.empty() ? " " + inner.substr(indent.size() + 2) : inner;
    }
    return;
  }
  for (const auto& [key, item] : value.items()) {
    out += indent + key + ":";
    write_yaml(item, indent + "  ", out);
  }
}

}  // namespace

std::string yaml_text(const Json& manifest) {
  std::string out;
  write_yaml(manifest, "", out);
  return out;
}

void check_kubernetes_name(const char* option, const std::string& name) {
  const auto letter = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto plain = [&](char c) { return letter(c) || (c >= '0' && c <= '9'); };
  const bool good = !name.empty() && name.size() <= 50 && letter(name.front()) && plain(name.back()) &&
                    std::ranges::all_of(name, [&](char c) { return plain(c) || c == '-'; });
  if (good) return;
  throw Error(ErrorKind::kUsage, fmt::format("{} '{}': Kubernetes does not take this name", option, printable(name)),
              "at most 50 of a-z, 0-9 and -, a letter first, and no - at the end");
}

void check_manifest_text(const std::string& text) {
  if (text.find('\0') == text.npos && is_utf8(text)) return;
  fail(ErrorKind::kUsage, "'{}': a manifest holds only UTF-8", printable(text));
}

std::string kubernetes_literal(const std::string& word) {
  std::string out;
  for (const char c : word) out += c == '$' ? std::string("$$") : std::string(1, c);
  return out;
}

}  // namespace mlx
