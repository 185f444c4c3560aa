// URLs have git's forms. Names are checked against the characters that hosts and users have: ssh expands them in the
// user's config, where a shell may see them.
#include "base/ssh.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/error.h"
#include "base/text.h"

namespace mlx {

namespace {

constexpr std::string_view kScheme = "ssh://";
constexpr const char* kForms = "write ssh://[USER@]HOST[:PORT]/PATH or [USER@]HOST:PATH";

struct Symptom {
  std::string_view text, hint;  // {} in the hint is USER@HOST
};
constexpr Symptom kSymptoms[] = {
    {"Host key verification failed", "check the host's key, then accept it once: ssh {} true"},
    {"Permission denied (", "mlx uses ssh's own keys and settings; this has to work: ssh {} true"},
    {"Could not resolve hostname", "is the host's name right? ssh's config or DNS must know it"},
    {"Connection refused", "does an SSH server listen there? try: ssh {} true"},
    {"Connection timed out", "is the host up and reachable? try: ssh {} true"},
    {"No route to host", "is the host up and reachable? try: ssh {} true"},
};

[[noreturn]] void refuse(const std::string& url, std::string_view why) {
  throw Error(ErrorKind::kUsage, fmt::format("{}: {}", url, why), kForms);
}

bool is_name(std::string_view text, std::string_view also) {
  return !text.empty() && text.front() != '-' && std::ranges::all_of(text, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           also.find(c) != std::string_view::npos;
  });
}

// "%20" and its like.
std::string decode_percent(const std::string& url, std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const std::string_view digits = text.substr(i + 1, 2);
    const bool hex = digits.size() == 2 && std::ranges::all_of(digits, [](char c) {
                       return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
                     });
    if (!hex || digits == "00") refuse(url, "'%' is not followed by two hex digits");
    out += static_cast<char>(from_hex(digits)[0]);
    i += 2;
  }
  return out;
}

// "[::1]:22", "host", "host:22".
void take_host(const std::string& url, std::string_view text, bool with_port, SshTarget& target) {
  std::string_view rest;
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) refuse(url, "'[' without ']'");
    target.host = text.substr(1, end - 1);
    rest = text.substr(end + 1);
    if (!is_name(target.host, ":.")) refuse(url, "there is no address between '[' and ']'");
  } else {
    const std::size_t colon = with_port ? text.find(':') : std::string_view::npos;
    target.host = text.substr(0, colon);
    rest = colon == std::string_view::npos ? std::string_view() : text.substr(colon);
    if (!is_name(target.host, ".-_")) refuse(url, "that is no name of a host");
  }
  if (rest.empty()) return;
  target.port = rest.substr(1);
  const bool number = rest.front() == ':' && !target.port.empty() && target.port.size() <= 5 &&
                      std::ranges::all_of(target.port, [](char c) { return c >= '0' && c <= '9'; });
  if (!with_port || !number || std::stoi(target.port) > 65535 || std::stoi(target.port) == 0)
    refuse(url, "that is no port");
}

void take_authority(const std::string& url, std::string_view text, bool with_port, SshTarget& target) {
  if (const std::size_t at = text.rfind('@'); at != std::string_view::npos) {
    target.user = text.substr(0, at);
    if (!is_name(target.user, ".-_+")) refuse(url, "that is not a user name (a password cannot be given here)");
    text.remove_prefix(at + 1);
  }
  take_host(url, text, with_port, target);
}

// The end of the host's name in "[::1]:PATH" or "host:PATH": its colon.
std::size_t short_colon(const std::string& url) {
  const std::size_t bracket = url.find('['), close = url.find("]:");
  if (bracket != std::string::npos && close != std::string::npos && url.find_first_of("/:") > bracket) return close + 1;
  return url.find(':');
}

}  // namespace

bool is_ssh_url(const std::string& url) {
  if (url.starts_with(kScheme)) return true;
  if (url.find("://") != std::string::npos) return false;
  const std::size_t colon = short_colon(url);
  return colon != std::string::npos && url.find('/') > colon;
}

SshTarget parse_ssh_url(const std::string& url) {
  SshTarget target;
  if (url.starts_with(kScheme)) {
    const std::string_view rest = std::string_view(url).substr(kScheme.size());
    const std::size_t slash = rest.find('/');
    if (slash == std::string_view::npos) refuse(url, "the path is missing");
    take_authority(url, rest.substr(0, slash), true, target);
    target.path = decode_percent(url, rest.substr(slash));
    if (target.path.starts_with("/~/")) target.path.erase(0, 3);
  } else {
    const std::size_t colon = short_colon(url);
    if (colon == std::string::npos) refuse(url, "the path is missing");
    take_authority(url, std::string_view(url).substr(0, colon), false, target);
    target.path = url.substr(colon + 1);
    if (target.path.starts_with("~/")) target.path.erase(0, 2);
  }
  if (target.path.starts_with('~') || target.path.starts_with("/~"))
    refuse(url, "of paths that begin with '~' only '~/' is known");
  if (target.path.empty() || target.path == "/") refuse(url, "the path is missing");
  return target;
}

std::vector<std::string> ssh_command(const SshTarget& target, const std::string& program, const std::string& command) {
  std::vector<std::string> words{"ssh"};
  if (!program.empty()) words = {"sh", "-c", program + " \"$@\"", program};
  if (!target.port.empty()) words.insert(words.end(), {"-p", target.port});
  words.push_back(target.login());
  words.push_back(command);
  return words;
}

std::string remote_word(const std::string& word) {
  if (is_name(word, "/._+-@%,:=")) return word;
  std::string out;
  std::string_view rest = word;
  if (rest.starts_with("~/")) {
    out = "~/";
    rest.remove_prefix(2);
  }
  return out + shell_quoted(rest);
}

std::string last_line_of(std::string_view text) {
  std::string found;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string line = printable(text.substr(at, end - at));
    while (!line.empty() && (line.back() == ' ' || line.back() == '?')) line.pop_back();
    if (!line.empty() && !line.starts_with("hint: ")) found = line;
    at = end + 1;
  }
  constexpr std::string_view kOurs = "mlx: error: ";
  return found.starts_with(kOurs) ? found.substr(kOurs.size()) : found;
}

std::optional<std::string> ssh_hint(const SshTarget& target, std::string_view said) {
  for (const Symptom& known : kSymptoms) {
    if (said.find(known.text) != std::string_view::npos) return fmt::format(fmt::runtime(known.hint), target.login());
  }
  return std::nullopt;
}

}  // namespace mlx
