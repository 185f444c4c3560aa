// The rules for names, in one place. They follow from the grammar of references, and from what is safe as a path.
#include "registry/operations/names.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/path.h"

namespace mlx::registry {
namespace {

constexpr std::size_t kMaxArtifact = 1024, kMaxLabel = 255;

bool is_digits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
}

bool is_label_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
         c == '-' || c == '/';
}

}  // namespace

std::string artifact_name_problem(std::string_view name) {
  if (name.empty()) return "a name is needed";
  if (name.size() > kMaxArtifact) return "it is longer than 1024 bytes";
  if (!is_utf8(name)) return "it is not valid UTF-8";
  if (std::ranges::any_of(name, is_control)) return "it holds a control character";
  if (name.find_first_of("@:") != std::string_view::npos) return "'@' and ':' mean something else in references";
  if (!is_safe_relative(name)) return "it must be a relative path without empty, '.' and '..' parts";
  if (has_private_part(name)) return "nothing inside .git or .mlx can be versioned";
  if (name == "run") return "'run:ID' names a run";
  return {};
}

std::string label_problem(std::string_view name) {
  if (name.empty()) return "a name is needed";
  if (name.size() > kMaxLabel) return "it is longer than 255 bytes";
  if (!std::ranges::all_of(name, is_label_char)) return "it may hold letters, digits, '.', '_', '-' and '/'";
  if (name.front() == '-') return "it cannot begin with '-'";
  if (name == "latest" || is_version_number(name)) return "that already names a version by its number";
  if (is_hex_prefix(name)) return "it looks like the digits of an id";
  return {};
}

bool is_version_number(std::string_view selector) {
  return selector.starts_with('v') && is_digits(selector.substr(1));
}

bool is_hex_prefix(std::string_view selector) {
  return selector.size() >= 8 && selector.size() <= 64 &&
         std::ranges::all_of(selector, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

}  // namespace mlx::registry
