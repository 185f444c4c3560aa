// Operations as bytes and as a graph: encoding, strict decoding, the fixed order. Applied in apply_operation.cpp.
// The format is mlx-format-operation(5).
#include "registry/operation.h"

#include <algorithm>
#include <queue>
#include <unordered_map>

#include "base/error.h"
#include "base/json.h"

namespace mlx::registry {
namespace {

constexpr std::int64_t kFormat = 1;
constexpr std::size_t kMaxParents = 4096;
constexpr std::size_t kMaxBytes = std::size_t{64} << 20;

bool is_actor(const std::string& text) {
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
      fail(ErrorKind::kCorrupt, "{}: 'parents' are not sorted, or one stands twice", what);
    }
  }
  return parents;
}

}  // namespace

// The body is canonical already and goes in as it stands; the other keys around it in their order.
Bytes encode(const Operation& operation) {
  std::string parents;
  for (const Digest& parent : operation.parents) {
    parents += fmt::format("{}\"{}\"", parents.empty() ? "" : ",", parent.text());
  }
  return to_bytes(fmt::format(R"({{"actor":{},"body":{},"format":{},"kind":{},"parents":[{}],"time":{}}})",
                              canonical(operation.actor), operation.body, kFormat, canonical(operation.kind), parents,
                              operation.time));
}

Operation decode(ByteView bytes) {
  Operation operation;
  operation.id = Digest::of(bytes);
  const std::string what = "operation " + operation.id.brief();
  if (bytes.size() > kMaxBytes) fail(ErrorKind::kCorrupt, "{}: larger than {}", what, format_bytes(kMaxBytes));
  const Json object = parse_json(as_text(bytes), what);
  if (!object.is_object()) fail(ErrorKind::kCorrupt, "{}: expected an object", what);
  const std::int64_t format = json_int(object, "format", what);
  if (format != kFormat) {
    throw Error(ErrorKind::kCorrupt, fmt::format("{}: has format {}, this mlx reads {}", what, format, kFormat),
                "it was written by a newer mlx: upgrade this one");
  }
  operation.kind = json_string(object, "kind", what);
  operation.actor = json_string(object, "actor", what);
  operation.time = json_int(object, "time", what);
  operation.body = canonical(json_object(object, "body", what));
  operation.parents = decode_parents(object, what);
  if (!is_actor(operation.actor)) fail(ErrorKind::kCorrupt, "{}: 'actor' is not 16 hex digits", what);
  if (operation.time < 0) fail(ErrorKind::kCorrupt, "{}: 'time' is before 1970", what);
  if (!std::ranges::equal(encode(operation), bytes)) {
    fail(ErrorKind::kCorrupt, "{}: has unknown keys or is not in canonical form", what);
  }
  return operation;
}

std::vector<Operation> fixed_order(std::vector<Operation> operations) {
  std::unordered_map<Digest, std::size_t, DigestHash> place;
  for (std::size_t i = 0; i < operations.size(); ++i) place.emplace(operations[i].id, i);
  std::vector<std::vector<std::size_t>> children(operations.size());
  std::vector<std::size_t> waiting_for(operations.size(), 0);
  const auto later = [&](std::size_t a, std::size_t b) {
    return std::pair(operations[a].time, operations[a].id) > std::pair(operations[b].time, operations[b].id);
  };
  std::priority_queue<std::size_t, std::vector<std::size_t>, decltype(later)> ready(later);
  for (const auto& [id, i] : place) {
    for (const Digest& parent : operations[i].parents) {
      const auto found = place.find(parent);
      if (found == place.end()) continue;
      children[found->second].push_back(i);
      ++waiting_for[i];
    }
    if (waiting_for[i] == 0) ready.push(i);
  }
  std::vector<Operation> ordered;
  ordered.reserve(place.size());
  while (!ready.empty()) {
    const std::size_t i = ready.top();
    ready.pop();
    for (std::size_t child : children[i]) {
      if (--waiting_for[child] == 0) ready.push(child);
    }
    ordered.push_back(operations[i]);  // copied: `later` still looks at what stands in `operations`
  }
  return ordered;
}

}  // namespace mlx::registry
