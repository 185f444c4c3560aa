// Encoding, strict decoding and the fixed order of operations. apply.cpp applies them. The format is
// mlx-format-operation(5).
#include "registry/operations/operation.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>

#include <sys/random.h>

#include <array>
#include <cerrno>

#include "base/bytes.h"
#include "base/error.h"
#include "base/json.h"

namespace mlx::registry {
namespace {

constexpr std::int64_t kUnsignedFormat = 1, kSignedFormat = 2;  // formats
constexpr std::size_t kMaxParents = 4096;
constexpr std::size_t kMaxBytes = std::size_t{16} << 20;
constexpr std::size_t kSignatureDigits = 128, kKeyDigits = 64;

bool is_id(const std::string& text) {
  return text.size() == 16 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

std::vector<Digest> decode_parents(const Json& object, const std::string& what) {
  std::vector<Digest> parents;
  const Json& list = json_array(object, "parents", what);
  if (list.size() > kMaxParents)
    fail(ErrorKind::kCorrupt, "{}: has {} parents, more than {}", what, list.size(), kMaxParents);
  for (const Json& parent : list) {
    if (!parent.is_string()) fail(ErrorKind::kCorrupt, "{}: 'parents': expected digests", what);
    parents.push_back(Digest::parse(parent.get_ref<const std::string&>()));
    if (parents.size() > 1 && !(parents[parents.size() - 2] < parents.back())) {
      fail(ErrorKind::kCorrupt, "{}: 'parents' are not sorted, or one occurs twice", what);
    }
  }
  return parents;
}

Bytes from_digits(const Json& object, const char* key, std::size_t digits, const std::string& what) {
  const std::string text = json_string(object, key, what);
  if (text.size() != digits || text.find_first_not_of("0123456789abcdef") != std::string::npos)
    fail(ErrorKind::kCorrupt, "{}: '{}' is not {} hex digits", what, key, digits);
  return from_hex(text);
}

void decode_signature(const Json& object, const std::string& what, Operation& operation) {
  operation.signer = Digest::from(from_digits(object, "signer", kKeyDigits, what));
  std::ranges::copy(from_digits(object, "signature", kSignatureDigits, what), operation.signature.bytes.begin());
  if (!operation.is_signed()) fail(ErrorKind::kCorrupt, "{}: 'signer' is no key", what);
}

// The actor is derived from the key, so that nobody can sign under another's id.
void decode_clone(const Json& object, const std::string& what, Operation& operation) {
  operation.clone = json_string(object, "clone", what);
  if (!is_id(operation.clone)) fail(ErrorKind::kCorrupt, "{}: 'clone' is not 16 hex digits", what);
  if (operation.actor != actor_of(operation.clone, operation.signer))
    fail(ErrorKind::kCorrupt, "{}: its actor {} does not match its clone and signer", what, operation.actor);
}

// The body is canonical already and is copied as it is; the other keys surround it in order.
Bytes encode_parts(const Operation& operation, bool with_signature) {
  std::string clone, parents, signature, signer;
  for (const Digest& parent : operation.parents) {
    parents += fmt::format("{}\"{}\"", parents.empty() ? "" : ",", parent.text());
  }
  if (operation.is_signed()) {
    if (with_signature) signature = fmt::format(R"("signature":"{}",)", to_hex(operation.signature.bytes));
    signer = fmt::format(R"("signer":"{}",)", operation.signer.hex());
    clone = fmt::format(R"("clone":"{}",)", operation.clone);
  }
  return to_bytes(fmt::format(R"({{"actor":{},"body":{},{}"format":{},"kind":{},"parents":[{}],{}{}"time":{}}})",
                              canonical(operation.actor), operation.body, clone,
                              operation.is_signed() ? kSignedFormat : kUnsignedFormat, canonical(operation.kind),
                              parents, signature, signer, operation.time));
}

}  // namespace

std::string actor_of(const std::string& clone, const Digest& signer) {
  constexpr std::size_t kDigits = 16;
  return Digest::of("mlx actor 1\n" + clone + signer.hex()).hex().substr(0, kDigits);
}

Bytes encode(const Operation& operation) {
  return encode_parts(operation, true);
}

Bytes signed_bytes(const Operation& operation) {
  return encode_parts(operation, false);
}

bool signature_holds(const Operation& operation) {
  return operation.is_signed() &&
         store::verify(operation.signer, kOperationPurpose, signed_bytes(operation), operation.signature);
}

Operation decode(ByteView bytes) {
  Operation operation;
  operation.id = Digest::of(bytes);
  const std::string what = "operation " + operation.id.brief();
  if (bytes.size() > kMaxBytes) fail(ErrorKind::kCorrupt, "{}: larger than {}", what, format_bytes(kMaxBytes));
  const Json object = parse_json(as_text(bytes), what);
  if (!object.is_object()) fail(ErrorKind::kCorrupt, "{}: expected an object", what);
  const std::int64_t format = json_int(object, "format", what);
  if (format != kUnsignedFormat && format != kSignedFormat) {
    throw Error(ErrorKind::kCorrupt,
                fmt::format("{}: has format {}, this mlx reads up to {}", what, format, kSignedFormat),
                "it was written by a newer mlx: upgrade this one");
  }
  operation.kind = json_string(object, "kind", what);
  operation.actor = json_string(object, "actor", what);
  operation.time = json_int(object, "time", what);
  operation.body = canonical(json_object(object, "body", what));
  operation.parents = decode_parents(object, what);
  if (!is_id(operation.actor)) fail(ErrorKind::kCorrupt, "{}: 'actor' is not 16 hex digits", what);
  if (format == kSignedFormat) {
    decode_signature(object, what, operation);
    decode_clone(object, what, operation);
  }
  if (operation.time < 0 || operation.time >= kMostTime)
    fail(ErrorKind::kCorrupt, "{}: 'time' is not between the years 1970 and 9999", what);
  if (!std::ranges::equal(encode(operation), bytes)) {
    fail(ErrorKind::kCorrupt, "{}: has unknown keys or is not in canonical form", what);
  }
  return operation;
}

std::vector<Operation> fixed_order(std::vector<Operation> operations) {
  std::unordered_map<Digest, std::size_t, DigestHash> place;
  for (std::size_t i = 0; i < operations.size(); ++i) place.emplace(operations[i].id, i);
  std::vector<std::vector<std::size_t>> children(operations.size());
  std::vector<std::size_t> waiting_for(operations.size(), 0), generation(operations.size(), 0), ready;
  for (const auto& [id, i] : place) {
    for (const Digest& parent : operations[i].parents) {
      const auto found = place.find(parent);
      if (found == place.end()) continue;
      children[found->second].push_back(i);
      ++waiting_for[i];
    }
    if (waiting_for[i] == 0) ready.push_back(i);
  }
  std::vector<std::size_t> reached;  // parents first; an operation that is its own ancestor is never reached
  while (!ready.empty()) {
    const std::size_t i = ready.back();
    ready.pop_back();
    reached.push_back(i);
    for (const std::size_t child : children[i]) {
      generation[child] = std::max(generation[child], generation[i] + 1);
      if (--waiting_for[child] == 0) ready.push_back(child);
    }
  }
  std::ranges::sort(reached, [&](std::size_t a, std::size_t b) {
    return std::tie(generation[a], operations[a].id) < std::tie(generation[b], operations[b].id);
  });
  std::vector<Operation> ordered;
  ordered.reserve(reached.size());
  for (const std::size_t i : reached) ordered.push_back(std::move(operations[i]));
  return ordered;
}

// 64 random bits from the kernel, as text.
std::string random_id() {
  std::array<std::uint8_t, 8> bytes{};
  // Up to 256 bytes are never interrupted once the generator is ready (getrandom(2)).
  while (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    if (errno != EINTR) fail_errno(errno, "getrandom", "read random bytes from");
  }
  return to_hex(bytes);
}

}  // namespace mlx::registry
