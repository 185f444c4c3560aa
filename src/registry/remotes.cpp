// Remotes as mlx.toml names them. The file belongs to the user: a remote is added and removed as text, and the result
// is read back before it replaces the file, so that nothing else in it ever changes.
#include <algorithm>

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/toml.h"
#include "registry/sync.h"

namespace mlx::registry {
namespace {

std::string config_path(const std::string& root) {
  return join_path(root, "mlx.toml");
}

std::string read_config(const std::string& root) {
  const std::string path = config_path(root);
  return path_exists(path) ? read_text(path) : std::string();
}

std::vector<RemoteConfig> parse_remotes(const std::string& text, const std::string& file) {
  const TomlNode tree = parse_toml(text, file);
  TomlReader top(tree, file, "");
  TomlReader table = top.table("remotes");
  std::vector<RemoteConfig> found;
  for (const std::string& name : table.keys()) {
    TomlReader remote = table.table(name, true);
    found.push_back({name, remote.string("url")});
    remote.finish();
  }
  return found;
}

bool is_remote_name(const std::string& name) {
  return !name.empty() && name.size() <= 64 && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

// "ssh://user:secret@host": a password in a tracked file ends up in git.
bool holds_password(const std::string& url) {
  const std::size_t scheme = url.find("://");
  if (scheme == std::string::npos) return false;
  const std::string authority = url.substr(scheme + 3, url.find('/', scheme + 3) - scheme - 3);
  const std::size_t at = authority.rfind('@');
  return at != std::string::npos && authority.substr(0, at).find(':') != std::string::npos;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

std::string_view trimmed(std::string_view line) {
  const std::size_t begin = line.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return line.substr(begin, line.find_last_not_of(" \t\r") - begin + 1);
}

// The text without the table [remotes.NAME]: its header and what follows up to the next header, but for the comments
// and empty lines right before that. Unchanged where no such header stands.
std::string without_table(const std::string& text, const std::string& name) {
  const std::string header = "[remotes." + name + "]", quoted_header = "[remotes.\"" + name + "\"]";
  std::string kept, held;  // held: comments and empty lines inside, which may belong to the next table
  bool inside = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    const std::string raw = text.substr(at, end - at);
    const std::string_view line = trimmed(std::string_view(raw).substr(0, raw.find('\n')));
    at = end;
    if (line.starts_with('[')) {
      const std::string_view table = trimmed(line.substr(0, line.find(']') + 1));
      const bool ours = table == header || table == quoted_header;
      if (inside && !ours) {
        if (held.starts_with('\n') && (kept.empty() || kept.ends_with("\n\n"))) held.erase(0, 1);
        kept += held;
      }
      held.clear();
      inside = ours;
    }
    if (!inside) {
      kept += raw;
    } else if (line.empty() || line.starts_with('#')) {
      held += raw;
    } else {
      held.clear();
    }
  }
  while (kept.ends_with("\n\n")) kept.pop_back();
  return kept == "\n" ? std::string() : kept;
}

void replace_config(const std::string& root, const std::string& text, const std::vector<RemoteConfig>& expected) {
  std::vector<RemoteConfig> found = parse_remotes(text, "mlx.toml");
  const auto same = [](const RemoteConfig& a, const RemoteConfig& b) { return a.name == b.name && a.url == b.url; };
  if (!std::ranges::is_permutation(found, expected, same)) {
    throw Error(ErrorKind::kConflict, "mlx.toml: its remotes are written in a way that can not be edited here",
                "edit it: [remotes.NAME] on a line, below it url = \"…\"");
  }
  write_file_atomically(config_path(root), text);
}

}  // namespace

std::vector<RemoteConfig> remotes(const std::string& root) {
  return parse_remotes(read_config(root), "mlx.toml");
}

void add_remote(const std::string& root, const RemoteConfig& remote) {
  if (!is_remote_name(remote.name)) {
    fail(ErrorKind::kUsage, "'{}' can not name a remote: up to 64 letters, digits, '_' and '-'", remote.name);
  }
  const bool control =
      std::ranges::any_of(remote.url, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
  if (remote.url.empty() || control || !is_utf8(remote.url))
    fail(ErrorKind::kUsage, "'{}' is no URL of a remote", remote.name);
  if (holds_password(remote.url)) {
    throw Error(ErrorKind::kRefused, "a password in a URL would be tracked by git",
                "leave it out: ssh and the environment know how to log in");
  }
  std::vector<RemoteConfig> expected = remotes(root);
  for (const RemoteConfig& known : expected) {
    if (known.name != remote.name) continue;
    if (known.url == remote.url) return;
    throw Error(ErrorKind::kConflict,
                fmt::format("mlx.toml: the remote '{}' stands with the URL {}", known.name, known.url),
                fmt::format("remove it first: mlx remote remove {}", known.name));
  }
  expected.push_back(remote);
  std::string text = read_config(root);
  if (!text.empty() && text.back() != '\n') text += '\n';
  if (!text.empty()) text += '\n';
  replace_config(root, text + fmt::format("[remotes.{}]\nurl = {}\n", remote.name, quoted(remote.url)), expected);
}

void remove_remote(const std::string& root, const std::string& name) {
  std::vector<RemoteConfig> expected = remotes(root);
  if (std::erase_if(expected, [&](const RemoteConfig& remote) { return remote.name == name; }) == 0) {
    (void)pick_remote(root, name);  // throws, with what was meant
  }
  replace_config(root, without_table(read_config(root), name), expected);
}

RemoteConfig pick_remote(const std::string& root, const std::string& name) {
  const std::vector<RemoteConfig> known = remotes(root);
  const std::string wanted = name.empty() ? "origin" : name;
  for (const RemoteConfig& remote : known) {
    if (remote.name == wanted) return remote;
  }
  if (known.empty())
    throw Error(ErrorKind::kNotFound, "mlx.toml names no remote", "add one: mlx remote add origin FOLDER");
  if (name.empty() && known.size() == 1) return known.front();
  std::vector<std::string> names;
  std::string list;
  for (const RemoteConfig& remote : known) {
    names.push_back(remote.name);
    list += (list.empty() ? "" : ", ") + remote.name;
  }
  if (name.empty()) {
    throw Error(ErrorKind::kNotFound, "several remotes, and none of them is called origin",
                fmt::format("name one of {}", list));
  }
  const std::string meant = did_you_mean(name, names);
  throw Error(ErrorKind::kNotFound, fmt::format("no remote is called '{}'", name),
              meant.empty() ? fmt::format("there is {}", list) : fmt::format("did you mean '{}'?", meant));
}

}  // namespace mlx::registry
