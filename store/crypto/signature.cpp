// The wire formats are lists of strings with big-endian lengths; a Reader takes one apart, put_* make one.
#include "store/crypto/signature.h"

#include <algorithm>
#include <optional>

#include "base/error.h"

namespace mlx::store {

namespace {

constexpr std::string_view kKeyType = "ssh-ed25519";
constexpr std::string_view kSignatureMagic = "SSHSIG", kHash = "sha512";
constexpr std::string_view kPrivateMagic{"openssh-key-v1\0", 15};
constexpr std::string_view kPrivateTitle = "OPENSSH PRIVATE KEY", kSignatureTitle = "SSH SIGNATURE";
constexpr std::size_t kLineWidth = 70, kCipherBlock = 8, kMostText = 16384;

void put_u32(Bytes& out, std::size_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<std::uint8_t>(value >> shift));
}

void put_string(Bytes& out, ByteView text) {
  put_u32(out, text.size());
  out.insert(out.end(), text.begin(), text.end());
}

void put_string(Bytes& out, std::string_view text) {
  put_string(out, as_bytes(text));
}

// Reads the fields of a wire format in order. Reading past the end returns nothing and sets `whole` to false.
struct Reader {
  ByteView rest;
  bool whole = true;

  ByteView take(std::size_t count) {
    if (count > rest.size()) {
      whole = false;
      return {};
    }
    const ByteView taken = rest.first(count);
    rest = rest.subspan(count);
    return taken;
  }
  std::uint32_t u32() {
    std::uint32_t value = 0;
    for (const std::uint8_t byte : take(4)) value = value << 8 | byte;
    return value;
  }
  ByteView string() { return take(u32()); }
  bool is(std::string_view text) { return as_text(string()) == text && whole; }
};

std::optional<Bytes> from_base64(std::string_view text) {
  while (text.ends_with('=')) text.remove_suffix(1);
  Bytes out;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    int value = 0;
    if (c >= 'A' && c <= 'Z') {
      value = c - 'A';
    } else if (c >= 'a' && c <= 'z') {
      value = c - 'a' + 26;
    } else if (c >= '0' && c <= '9') {
      value = c - '0' + 52;
    } else if (c == '+' || c == '/') {
      value = c == '+' ? 62 : 63;
    } else {
      return std::nullopt;
    }
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out.push_back(static_cast<std::uint8_t>(bits >> count));
  }
  return out;
}

// RFC 7468 with OpenSSH's width of lines.
std::string armor(std::string_view title, ByteView bytes) {
  const std::string body = to_base64(bytes);
  std::string text = fmt::format("-----BEGIN {}-----\n", title);
  for (std::size_t at = 0; at < body.size(); at += kLineWidth) text += body.substr(at, kLineWidth) + "\n";
  return text + fmt::format("-----END {}-----\n", title);
}

std::optional<Bytes> unarmor(std::string_view title, std::string_view text) {
  const std::string begin = fmt::format("-----BEGIN {}-----", title), end = fmt::format("-----END {}-----", title);
  if (text.size() > kMostText || !text.starts_with(begin)) return std::nullopt;
  const std::size_t stop = text.find(end);
  if (stop == std::string_view::npos) return std::nullopt;
  std::string body(text.substr(begin.size(), stop - begin.size()));
  std::erase_if(body, [](char c) { return c == '\n' || c == '\r'; });
  return from_base64(body);
}

Bytes key_blob(const Digest& public_key) {
  Bytes blob;
  put_string(blob, kKeyType);
  put_string(blob, public_key.bytes);
  return blob;
}

std::optional<Digest> parse_key_blob(ByteView blob) {
  Reader in{blob};
  if (!in.is(kKeyType)) return std::nullopt;
  const ByteView key = in.string();
  if (!in.whole || !in.rest.empty() || key.size() != 32) return std::nullopt;
  return Digest::from(key);
}

// The bytes that are signed in place of the message (PROTOCOL.sshsig, "Signed Data").
Bytes signed_data(std::string_view purpose, ByteView message) {
  Bytes data = to_bytes(kSignatureMagic);
  put_string(data, purpose);
  put_string(data, std::string_view());
  put_string(data, kHash);
  put_string(data, sha512(message));
  return data;
}

}  // namespace

SigningKey signing_key_of(Secret seed) {
  const Digest public_key = ed25519_public(seed);
  return {std::move(seed), public_key};
}

SigningKey generate_signing_key() {
  Secret seed(32);
  random_bytes({seed.data(), seed.size()});
  return signing_key_of(std::move(seed));
}

Signature sign(const SigningKey& key, std::string_view purpose, ByteView message) {
  return {ed25519_sign(key.seed, signed_data(purpose, message))};
}

bool verify(const Digest& public_key, std::string_view purpose, ByteView message, const Signature& signature) {
  return ed25519_verify(public_key, signed_data(purpose, message), signature.bytes);
}

std::string ssh_public_key(const Digest& public_key) {
  return fmt::format("{} {}", kKeyType, to_base64(key_blob(public_key)));
}

Digest parse_ssh_public_key(std::string_view line, const std::string& what) {
  const auto next_word = [&line] {
    const std::size_t begin = std::min(line.find_first_not_of(" \t\r\n"), line.size());
    const std::size_t end = std::min(line.find_first_of(" \t\r\n", begin), line.size());
    const std::string_view word = line.substr(begin, end - begin);
    line.remove_prefix(end);
    return word;
  };
  const std::string_view type = next_word(), body = next_word();
  if (type == kKeyType && body.size() <= kMostText) {
    const std::optional<Bytes> blob = from_base64(body);
    const std::optional<Digest> key = blob ? parse_key_blob(*blob) : std::nullopt;
    if (key && ssh_public_key(*key).ends_with(body)) return *key;
  }
  throw Error(ErrorKind::kUsage, fmt::format("{}: not an Ed25519 public key of SSH", what),
              "it is one line, `ssh-ed25519 AAAA…`; `ssh-keygen -t ed25519` makes one");
}

std::string ssh_fingerprint(const Digest& public_key) {
  std::string digest = to_base64(Digest::of(key_blob(public_key)).bytes);
  while (digest.ends_with('=')) digest.pop_back();
  return "SHA256:" + digest;
}

std::string ssh_private_key(const SigningKey& key) {
  std::array<std::uint8_t, 4> check{};
  random_bytes(check);
  Secret pair(64);
  std::copy_n(ByteView(key.seed).begin(), 32, pair.data());
  std::copy_n(key.public_key.bytes.begin(), 32, pair.data() + 32);
  Bytes inner;
  inner.reserve(256);  // never reallocated: its content is wiped below
  for (int twice = 0; twice < 2; ++twice) inner.insert(inner.end(), check.begin(), check.end());
  put_string(inner, kKeyType);
  put_string(inner, key.public_key.bytes);
  put_string(inner, ByteView(pair));
  put_string(inner, "mlx");
  for (std::uint8_t pad = 1; inner.size() % kCipherBlock != 0; ++pad) inner.push_back(pad);
  Bytes out = to_bytes(kPrivateMagic);
  out.reserve(1024);
  put_string(out, "none");
  put_string(out, "none");
  put_string(out, "");
  put_u32(out, 1);
  put_string(out, key_blob(key.public_key));
  put_string(out, inner);
  std::string text = armor(kPrivateTitle, out);
  wipe(inner);
  wipe(out);
  return text;
}

SigningKey parse_ssh_private_key(std::string_view text, const std::string& what) {
  const auto wrong = [&](const char* why) {
    throw Error(ErrorKind::kUsage, fmt::format("{}: {}", what, why), "`ssh-keygen -t ed25519 -f FILE` makes one");
  };
  std::optional<Bytes> bytes = unarmor(kPrivateTitle, text);
  if (!bytes || !as_text(*bytes).starts_with(kPrivateMagic)) wrong("not a private key of OpenSSH");
  Reader in{ByteView(*bytes).subspan(kPrivateMagic.size())};
  const std::string cipher(as_text(in.string()));
  (void)in.string(), (void)in.string();  // how the cipher's key is made of the passphrase
  const bool one = in.u32() == 1;
  const std::optional<Digest> named = parse_key_blob(in.string());
  if (!in.whole || !one || !named) wrong("not an Ed25519 key: mlx signs with those alone");
  if (cipher != "none") {
    throw Error(ErrorKind::kRefused, fmt::format("{}: the key is behind a passphrase", what),
                "add it to an ssh-agent (ssh-add), and name its public key in user.signingkey");
  }
  Reader inner{in.string()};
  const std::uint32_t check = inner.u32();
  const bool checked = inner.u32() == check && inner.is(kKeyType);
  (void)inner.string();
  const ByteView pair = inner.string();
  if (!checked || !inner.whole || pair.size() != 64) wrong("the private key is damaged");
  SigningKey key = signing_key_of(Secret(pair.first(32)));
  wipe(*bytes);
  if (key.public_key != *named) wrong("the private key is not that of its public key");
  return key;
}

std::string armored_signature(const Digest& public_key, std::string_view purpose, const Signature& signature) {
  Bytes wire;
  put_string(wire, kKeyType);
  put_string(wire, signature.bytes);
  Bytes out = to_bytes(kSignatureMagic);
  put_u32(out, 1);
  put_string(out, key_blob(public_key));
  put_string(out, purpose);
  put_string(out, "");
  put_string(out, kHash);
  put_string(out, wire);
  return armor(kSignatureTitle, out);
}

Signed parse_armored_signature(std::string_view text, std::string_view purpose, const std::string& what) {
  const std::optional<Bytes> bytes = unarmor(kSignatureTitle, text);
  if (!bytes || !as_text(*bytes).starts_with(kSignatureMagic)) fail(ErrorKind::kCorrupt, "{}: no SSH signature", what);
  Reader in{ByteView(*bytes).subspan(kSignatureMagic.size())};
  const bool version = in.u32() == 1;
  const std::optional<Digest> key = parse_key_blob(in.string());
  const bool meant = in.is(purpose) && in.is("") && in.is(kHash);
  Reader wire{in.string()};
  const bool type = wire.is(kKeyType);
  const ByteView raw = wire.string();
  if (!version || !key || !meant || !type || !in.whole || !wire.whole || raw.size() != 64)
    fail(ErrorKind::kCorrupt, "{}: not an Ed25519 signature over SHA-512 for '{}'", what, purpose);
  Signed found{*key, {}};
  std::ranges::copy(raw, found.signature.bytes.begin());
  return found;
}

}  // namespace mlx::store
