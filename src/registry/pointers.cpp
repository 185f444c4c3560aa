// Pointer files: strict text in and out, and where they stand in the worktree. The format is mlx-format-pointer(5).
#include "registry/pointers.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "registry/names.h"

namespace mlx::registry {
namespace {

constexpr std::array<std::string_view, 5> kKeys = {"artifact", "digest", "files", "kind", "size"};
constexpr std::size_t kMaxPointer = 64 << 10;
constexpr std::string_view kSuffix = ".mlx";

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

// nullopt where a '%' is not followed by two hex digits.
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
              hint.empty() ? "restore it with 'git checkout', or run 'mlx add' again" : hint);
}

std::vector<std::string_view> split_lines(std::string_view text, const std::string& file) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos)
      bad_line(file, lines.size() + 1, "the last line has no end: the file is cut off");
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return lines;
}

std::string value_of(std::string_view line, std::size_t number, const std::string& file) {
  const std::string_view key = kKeys[number - 1];
  if (line.starts_with("<<<<<<<") || line.starts_with("=======") || line.starts_with(">>>>>>>")) {
    bad_line(file, number, "an unfinished git merge", "choose one side (git checkout --ours or --theirs), then commit");
  }
  if (line.starts_with("#mlx-pointer")) bad_line(file, number, "a pointer of a later format", "upgrade this mlx");
  if (!line.starts_with(key) || line.size() <= key.size() || line[key.size()] != ' ') {
    bad_line(file, number, fmt::format("expected '{} VALUE'", key));
  }
  const std::string_view text = line.substr(key.size() + 1);
  const std::optional<std::string> value = unescape(text);
  if (!value || escape(*value) != text)
    bad_line(file, number, fmt::format("the value of '{}' is not escaped as it must be", key));
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

bool is_real_folder(const std::string& path) {  // not through a symbolic link
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

std::string read_pointer_text(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && static_cast<std::uint64_t>(info.st_size) > kMaxPointer) {
    bad_line(path, 1, "too large for a pointer");
  }
  return read_text(path);
}

bool is_pointer_name(const std::string& name) {
  return name.size() > kSuffix.size() && name.ends_with(kSuffix);
}

Pointer read_in_place(Repository& repository, const std::string& relative) {
  const Pointer pointer = decode_pointer(read_pointer_text(join_path(repository.root(), relative)), relative);
  const std::string expected = pointer_path(pointer.kind, pointer.artifact);
  if (expected != relative) {
    throw Error(ErrorKind::kCorrupt,
                fmt::format("{}:1: is the pointer of {} '{}', which stands at {}", relative, kind_name(pointer.kind),
                            pointer.artifact, expected),
                "move it there, or remove it");
  }
  return pointer;
}

void collect(Repository& repository, const std::string& relative, std::vector<Pointer>& found) {
  const std::string folder = join_path(repository.root(), relative);
  const std::vector<std::string> names = list_folder(folder);
  // A repository inside this one keeps its own pointers.
  if (!relative.empty() && std::ranges::binary_search(names, std::string(".mlx"))) return;
  for (const std::string& name : names) {
    const std::string inside = relative.empty() ? name : relative + "/" + name;
    const std::string path = join_path(folder, name);
    if (is_pointer_name(name) && !is_real_folder(path)) {
      found.push_back(read_in_place(repository, inside));
    } else if (name != ".git" && name != ".mlx" && !std::ranges::binary_search(names, name + std::string(kSuffix)) &&
               is_real_folder(path)) {
      collect(repository, inside, found);
    }
  }
}

// As a .gitignore wants it: what git would read as a pattern is escaped.
std::string ignore_line(const std::string& name) {
  std::string line = "/";
  for (const char c : name) {
    if (c == '*' || c == '?' || c == '[' || c == '\\') line += '\\';
    line += c;
  }
  if (line.back() == ' ') line.insert(line.size() - 1, 1, '\\');
  return line;
}

}  // namespace

std::string encode_pointer(const Pointer& pointer) {
  return fmt::format("artifact {}\ndigest {}\nfiles {}\nkind {}\nsize {}\n", escape(pointer.artifact),
                     pointer.digest.text(), pointer.files, kind_name(pointer.kind), pointer.size);
}

Pointer decode_pointer(std::string_view text, const std::string& file) {
  const std::vector<std::string_view> lines = split_lines(text, file);
  std::array<std::string, kKeys.size()> values;
  for (std::size_t i = 0; i < kKeys.size(); ++i) {
    if (i >= lines.size()) bad_line(file, i + 1, fmt::format("expected '{} VALUE'", kKeys[i]));
    values[i] = value_of(lines[i], i + 1, file);
  }
  if (lines.size() > kKeys.size()) bad_line(file, kKeys.size() + 1, "nothing is expected here");
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

std::string pointer_path(ArtifactKind kind, const std::string& artifact) {
  return (kind == ArtifactKind::kModel ? "models/" + artifact : artifact) + std::string(kSuffix);
}

std::optional<Pointer> read_pointer(Repository& repository, const std::string& artifact) {
  for (const ArtifactKind kind : {ArtifactKind::kDataset, ArtifactKind::kModel}) {
    const std::string relative = pointer_path(kind, artifact);
    const std::string path = join_path(repository.root(), relative);
    if (!path_exists(path) || is_real_folder(path)) continue;
    const Pointer pointer = read_in_place(repository, relative);
    if (pointer.artifact == artifact) return pointer;  // models/clf.mlx is no pointer of a dataset "models/clf"
  }
  return std::nullopt;
}

bool write_pointer(Repository& repository, const Pointer& pointer) {
  if (const std::string problem = artifact_name_problem(pointer.artifact); !problem.empty()) {
    fail(ErrorKind::kUsage, "'{}' can not name an artifact: {}", pointer.artifact, problem);
  }
  const std::string relative = pointer_path(pointer.kind, pointer.artifact),
                    path = join_path(repository.root(), relative);
  const std::string text = encode_pointer(pointer);
  if (path_exists(path)) {
    const std::string before = read_pointer_text(path);
    if (before == text) return false;
    const Pointer other = decode_pointer(before, relative);
    if (other.artifact != pointer.artifact || other.kind != pointer.kind) {
      throw Error(ErrorKind::kConflict,
                  fmt::format("{}: is the pointer of {} '{}'", relative, kind_name(other.kind), other.artifact),
                  "choose another name");
    }
  }
  make_folders(parent_path(path));
  write_file_atomically(path, text);
  return true;
}

std::vector<Pointer> all_pointers(Repository& repository) {
  std::vector<Pointer> found;
  collect(repository, "", found);
  std::ranges::sort(found, {}, &Pointer::artifact);
  return found;
}

void ignore_in_git(Repository& repository, const std::string& path) {
  const std::string full = join_path(repository.root(), path), file = join_path(parent_path(full), ".gitignore");
  const std::string line = ignore_line(base_name(full));
  std::string text = path_exists(file) ? read_text(file) : std::string();
  if (("\n" + text + "\n").find("\n" + line + "\n") != std::string::npos) return;
  if (!text.empty() && text.back() != '\n') text += '\n';
  write_file_atomically(file, text + line + "\n");
}

}  // namespace mlx::registry
