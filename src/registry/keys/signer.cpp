// A key from a file signs in this process. A key in an agent signs through `ssh-keygen -Y sign`, which can talk to
// agents and to people.
#include "registry/keys/signer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/subprocess.h"
#include "registry/operations/operation.h"

namespace mlx::registry {
namespace {

constexpr const char* kSetting = "user.signingkey";
constexpr std::size_t kLargestKeyFile = 64 << 10;

Signer from_private_key(store::SigningKey key) {
  const auto shared = std::make_shared<const store::SigningKey>(std::move(key));
  return {shared->public_key,
          [shared](std::string_view purpose, ByteView message) { return store::sign(*shared, purpose, message); }};
}

// Signs with the agent's private key for this public key.
store::Signature sign_with_agent(const Digest& public_key, std::string_view purpose, ByteView message,
                                 const Environment& environment) {
  const TempFolder folder(environment);
  const std::string key = join_path(folder.path(), "key.pub");
  write_file_atomically(key, store::ssh_public_key(public_key) + "\n");
  const ProcessResult result = run_process({"ssh-keygen", "-q", "-Y", "sign", "-n", std::string(purpose), "-f", key},
                                           std::string(as_text(message)));
  if (result.exit_code == 127)
    throw Error(ErrorKind::kMissing, "ssh-keygen is not installed",
                "install openssh-client, or name a private key's file");
  if (result.exit_code != 0) {
    throw Error(ErrorKind::kRefused,
                fmt::format("{}: no ssh-agent signs with {}", kSetting, store::ssh_fingerprint(public_key)),
                "`ssh-add` gives it the private key; `ssh-add -l` lists what it has");
  }
  const store::Signed made = store::parse_armored_signature(result.out, purpose, "what ssh-keygen printed");
  if (made.public_key != public_key || !store::verify(public_key, purpose, message, made.signature))
    fail(ErrorKind::kRefused, "{}: the ssh-agent signed with another key", kSetting);
  return made.signature;
}

Signer from_agent(const Digest& public_key, const Environment& environment) {
  return {public_key, [public_key, environment](std::string_view purpose, ByteView message) {
            return sign_with_agent(public_key, purpose, message, environment);
          }};
}

std::string with_home(const std::string& path, const Environment& environment) {
  return path.starts_with("~/") && !environment.home.empty() ? join_path(environment.home, path.substr(2)) : path;
}

Secret read_key_file(const std::string& path) {
  Bytes bytes = read_private_file(path, kLargestKeyFile + 1);
  if (bytes.size() > kLargestKeyFile) fail(ErrorKind::kUsage, "{}: not a file of a key", path);
  Secret text{ByteView(bytes)};
  wipe(bytes);
  return text;
}

Signer signer_of(const Secret& text, const std::string& path) {
  return from_private_key(store::parse_ssh_private_key(as_text(text), path));
}

// Reads what user.signingkey names: a public key's text, its file, or a private key's file.
Signer named_signer(const std::string& value, const SettingSources& sources) {
  if (value.starts_with("ssh-")) return from_agent(store::parse_ssh_public_key(value, kSetting), sources.environment);
  const std::string path = join_path(sources.root.empty() ? "/" : sources.root, with_home(value, sources.environment));
  if (!path_exists(path)) {
    throw Error(ErrorKind::kNotFound, fmt::format("{}: {} is missing", kSetting, path),
                "name a file like ~/.ssh/id_ed25519; `ssh-keygen -t ed25519` makes one");
  }
  if (path.ends_with(".pub"))
    return from_agent(store::parse_ssh_public_key(read_text(path), path), sources.environment);
  const Secret text = read_key_file(path);
  try {
    return signer_of(text, path);
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kRefused || !path_exists(path + ".pub")) throw;
    return from_agent(store::parse_ssh_public_key(read_text(path + ".pub"), path + ".pub"), sources.environment);
  }
}

// Where mlx's own key may be, in the order in which it is searched for and made.
std::vector<std::string> own_paths(const SettingSources& sources) {
  std::vector<std::string> paths;
  const std::string config = sources.environment.get("XDG_CONFIG_HOME").value_or("");
  if (config.starts_with('/')) {
    paths.push_back(join_path(config, "mlx/signing_key"));
  } else if (!sources.environment.home.empty()) {
    paths.push_back(join_path(sources.environment.home, ".config/mlx/signing_key"));
  }
  paths.push_back(join_path(sources.root, ".mlx/signing_key"));
  return paths;
}

// If another process makes a key at the same time, one of the two keys is there afterwards, complete.
void make_key(const std::string& path) {
  make_folders(parent_path(path));
  const std::string temporary = fmt::format("{}.{}", path, random_id());
  const Fd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (fd.get() < 0) fail_errno(errno, temporary, "create");
  std::string text = store::ssh_private_key(store::generate_signing_key());
  write_all(fd.get(), as_bytes(text), temporary);
  wipe({reinterpret_cast<std::uint8_t*>(text.data()), text.size()});
  const bool synced = ::fsync(fd.get()) == 0;
  const bool placed = synced && (::link(temporary.c_str(), path.c_str()) == 0 || errno == EEXIST);
  const int why = errno;
  ::unlink(temporary.c_str());
  if (!placed) fail_errno(why, path, "write");
}

}  // namespace

Bytes read_private_file(const std::string& path, std::size_t most) {
  const Fd fd = open_file(path, O_RDONLY);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) fail_errno(errno, path, "stat");
  if (S_ISREG(info.st_mode) && (info.st_mode & 077) != 0) {
    throw Error(ErrorKind::kRefused, fmt::format("{}: others can read it (mode {:o})", path, info.st_mode & 0777),
                fmt::format("chmod 600 {}", path));
  }
  return read_secret(fd.get(), path, most);
}

Bytes read_secret(int fd, const std::string& source, std::size_t most) {
  Bytes bytes(most);
  std::size_t size = 0;
  while (size < bytes.size()) {
    const ssize_t count = ::read(fd, bytes.data() + size, bytes.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_errno(errno, source, "read");
    if (count == 0) break;
    size += static_cast<std::size_t>(count);
  }
  bytes.resize(size);
  return bytes;
}

std::optional<Signer> find_signer(const SettingSources& sources) {
  const Settings settings(sources);
  for (const SettingOrigin origin : {SettingOrigin::kEnvironment, SettingOrigin::kClone, SettingOrigin::kUser}) {
    if (const auto named = settings.find_in(origin, kSetting); named && !named->text.empty())
      return named_signer(named->text, sources);
  }
  for (const std::string& path : own_paths(sources)) {
    if (::access(path.c_str(), R_OK) == 0) return signer_of(read_key_file(path), path);  // ignores another user's home
  }
  return std::nullopt;
}

Signer find_or_make_signer(const SettingSources& sources) {
  if (std::optional<Signer> found = find_signer(sources)) return std::move(*found);
  const std::vector<std::string> paths = own_paths(sources);
  for (const std::string& path : paths) {
    try {
      if (!path_exists(path)) make_key(path);
      return signer_of(read_key_file(path), path);
    } catch (const Error& error) {
      if (path == paths.back()) throw;  // a home that is not writable is skipped
    }
  }
  CHECK(false);
}

}  // namespace mlx::registry
