// Strict encoding and decoding of pointer files. The format is mlx-format-pointer(5).
#include "registry/versions/pointer_text.h"

#include <array>
#include <charconv>

#include "base/error.h"
#include "registry/operations/names.h"

namespace mlx::registry {
namespace {

constexpr std::array<std::string_view, 5> kPointerKeys = {"artifact", "digest", "files", "kind", "size"};

std::string escape(std::string_view value) {
  const bool utf8 = is_utf8(value);
  std::string out;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const auto byte = static_cast<unsigned char>(value[i]);
    const bool edge_space = byte == ' ' && (i == 0 || i + 1 == value.size());
    if (byte == '%' || byte < 0x20 || byte == 0x7F || edge_space || (byte > 0x7F && !utf8)) {
      out += fmt::format("%{:02X}", byte);
    } else {
      out += value[i];
    }
  }
  return out;
}

// nullopt if a '%' is not followed by two hex digits.
std::optional<std::string> unescape(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    unsigned value = 0;
    if (i + 2 >= text.size()) return std::nullopt;
    const auto [end, error] = std::from_chars(text.data() + i + 1, text.data() + i + 3, value, 16);
    if (error != std::errc() || end != text.data() + i + 3) return std::nullopt;
    out += static_cast<char>(value);
    i += 2;
  }
  return out;
}

[[noreturn]] void bad_line(const std::string& file, std::size_t line, const std::string& why,
                           const std::string& hint = {}) {
  throw Error(ErrorKind::kCorrupt, fmt::format("{}:{}: {}", file, line, why),
              hint.empty() ? "restore it with `git checkout`, or remove it and run `mlx add` again" : hint);
}

std::vector<std::string_view> split_lines(std::string_view text, const std::string& file) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos)
      bad_line(file, lines.size() + 1, "the last line is incomplete: the file is truncated");
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return lines;
}

std::string value_of(std::string_view line, std::size_t number, const std::string& file) {
  const std::string_view key = kPointerKeys[number - 1];
  if (line.starts_with("<<<<<<<") || line.starts_with("=======") || line.starts_with(">>>>>>>")) {
    throw Error(ErrorKind::kConflict, fmt::format("{}:{}: an unfinished git merge", file, number),
                fmt::format("choose one side (git checkout --ours {0}, or --theirs), then git add {0}", file));
  }
  if (line.starts_with("#mlx-pointer")) bad_line(file, number, "a pointer of a later format", "upgrade this mlx");
  if (!line.starts_with(key) || line.size() <= key.size() || line[key.size()] != ' ') {
    bad_line(file, number, fmt::format("expected '{} VALUE'", key));
  }
  const std::string_view text = line.substr(key.size() + 1);
  const std::optional<std::string> value = unescape(text);
  if (!value || escape(*value) != text)
    bad_line(file, number, fmt::format("the value of '{}' is not escaped correctly", key));
  return *value;
}

std::uint64_t number_of(const std::string& value, std::size_t line, const std::string& file) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() || std::to_string(number) != value ||
      number > std::uint64_t{INT64_MAX}) {
    bad_line(file, line, fmt::format("'{}' is not a number", value.substr(0, 80)));
  }
  return number;
}

}  // namespace

bool looks_like_pointer(std::string_view text, std::string_view relative) {
  constexpr std::string_view kFirst = "artifact ", kModels = "models/", kSuffix = ".mlx";
  if (text.empty()) return false;  // the caller knows whether a pointer is expected there
  if (text.size() <= kFirst.size() && kFirst.starts_with(text)) return true;
  if (text.starts_with("<<<<<<<") || text.starts_with("#mlx-pointer")) return true;
  if (!text.starts_with(kFirst)) return false;
  const std::size_t end = text.find('\n');
  if (end != std::string_view::npos && text.substr(end + 1).starts_with("digest ")) return true;
  const std::string line(text.substr(0, end));
  const auto names = [&](std::string_view artifact) {
    const std::string whole = std::string(kFirst) + escape(artifact);
    return end == std::string_view::npos ? whole.starts_with(line) : whole == line;
  };
  if (!relative.ends_with(kSuffix)) return false;
  const std::string_view place = relative.substr(0, relative.size() - kSuffix.size());
  return names(place) || (place.starts_with(kModels) && names(place.substr(kModels.size())));
}

const char* kind_name(ArtifactKind kind) {
  return kind == ArtifactKind::kDataset ? "dataset" : "model";
}

std::string encode_pointer(const Pointer& pointer) {
  return fmt::format("artifact {}\ndigest {}\nfiles {}\nkind {}\nsize {}\n", escape(pointer.artifact),
                     pointer.digest.text(), pointer.files, kind_name(pointer.kind), pointer.size);
}

Pointer decode_pointer(std::string_view text, const std::string& file) {
  const std::vector<std::string_view> lines = split_lines(text, file);
  std::array<std::string, kPointerKeys.size()> values;
  for (std::size_t i = 0; i < kPointerKeys.size(); ++i) {
    if (i >= lines.size()) bad_line(file, i + 1, fmt::format("expected '{} VALUE'", kPointerKeys[i]));
    values[i] = value_of(lines[i], i + 1, file);
  }
  if (lines.size() > kPointerKeys.size()) bad_line(file, kPointerKeys.size() + 1, "nothing is expected here");
  Pointer pointer;
  pointer.artifact = values[0];
  if (const std::string problem = artifact_name_problem(pointer.artifact); !problem.empty()) bad_line(file, 1, problem);
  try {
    pointer.digest = Digest::parse(values[1]);
  } catch (const Error& error) {
    bad_line(file, 2, error.message);
  }
  if (!values[1].starts_with("sha256:")) bad_line(file, 2, "the digest does not begin with sha256:");
  pointer.files = number_of(values[2], 3, file);
  if (values[3] != "dataset" && values[3] != "model") bad_line(file, 4, "the kind is neither dataset nor model");
  pointer.kind = values[3] == "model" ? ArtifactKind::kModel : ArtifactKind::kDataset;
  pointer.size = number_of(values[4], 5, file);
  return pointer;
}

}  // namespace mlx::registry
