// Operations as bytes, and the fixed order.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "base/json.h"
#include "fails_with.h"
#include "registry/operations/operation.h"
#include "registry/operations/operation_stage.h"

using namespace mlx;
using namespace mlx::registry;
using mlx::registry::test::fails_with;

namespace {

Operation operation(std::int64_t time, std::vector<Digest> parents, const std::string& body = "{}") {
  Operation o;
  o.kind = "attach";
  o.parents = std::move(parents);
  std::ranges::sort(o.parents);
  o.actor = "0123456789abcdef";
  o.time = time;
  o.body = body;
  o.id = Digest::of(encode(o));
  return o;
}

}  // namespace

TEST_CASE("an operation reads back as it was written") {
  const Operation parent = operation(1, {}), other = operation(2, {});
  const Operation o =
      operation(1700000000000000, {parent.id, other.id}, R"({"name":"ä \u0001","value":[1,2.5,null,true]})");
  const Operation back = decode(encode(o));
  CHECK(back.id == o.id);
  CHECK(back.kind == o.kind);
  CHECK(back.parents == o.parents);
  CHECK(back.actor == o.actor);
  CHECK(back.time == o.time);
  CHECK(back.body == o.body);
}

TEST_CASE("only the canonical bytes of a whole operation are read") {
  const std::string good(as_text(encode(operation(5, {}))));
  REQUIRE_NOTHROW(decode(as_bytes(good)));
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    return text.replace(at, from.size(), to);
  };
  const auto corrupt = [](const std::string& text, const std::string& words) {
    return fails_with(ErrorKind::kCorrupt, words, [&] { decode(as_bytes(text)); });
  };
  CHECK(corrupt(good + " ", "canonical") == "");
  CHECK(corrupt(replaced("\"time\":5", "\"time\": 5"), "canonical") == "");
  CHECK(corrupt(replaced("\"time\":5", "\"time\":5,\"zeal\":1"), "unknown keys") == "");
  CHECK(corrupt(replaced("\"time\":5", "\"time\":-5"), "1970") == "");
  CHECK(corrupt(replaced("\"time\":5", "\"time\":\"5\""), "integer") == "");
  CHECK(corrupt(replaced("\"format\":1", "\"format\":3"), "newer") == "");
  CHECK(corrupt(replaced("\"format\":1", "\"format\":2"), "signer") == "");
  CHECK(corrupt(replaced("0123456789abcdef", "0123456789ABCDEF"), "16 hex digits") == "");
  CHECK(corrupt(replaced("\"body\":{}", "\"body\":[]"), "object") == "");
  CHECK(corrupt(replaced("\"parents\":[]", "\"parents\":[7]"), "digests") == "");
  CHECK(corrupt("[]", "object") == "");
  CHECK(corrupt("", "") == "");
}

TEST_CASE("damaged bytes are an error or another operation, never anything else") {
  const Bytes good = encode(operation(5, {operation(1, {}).id}, R"({"a":[1,{"b":"c"}]})"));
  std::mt19937 random(7);
  for (int i = 0; i < 3000; ++i) {
    Bytes bytes = good;
    for (unsigned n = 1 + random() % 3; n > 0; --n)
      bytes[random() % bytes.size()] = static_cast<std::uint8_t>(random());
    if (random() % 4 == 0) bytes.resize(random() % bytes.size());
    try {
      const Operation o = decode(bytes);
      CHECK(o.id == Digest::of(bytes));
      CHECK(encode(o) == bytes);
    } catch (const Error& error) {
      CHECK(error.kind == ErrorKind::kCorrupt);
    }
  }
}

TEST_CASE("the fixed order is by generation, then by id, whatever the order of arrival and the clocks") {
  const Operation root = operation(100, {});
  const Operation early = operation(50, {root.id}), late = operation(900, {root.id});
  const Operation merge = operation(10, {early.id, late.id});
  const Operation aside = operation(1, {early.id}, R"({"n":1})");
  std::vector<Operation> all = {root, early, late, merge, aside};
  const std::vector<Digest> expected = {root.id, std::min(early.id, late.id), std::max(early.id, late.id),
                                        std::min(merge.id, aside.id), std::max(merge.id, aside.id)};
  std::mt19937 random(3);
  for (int i = 0; i < 20; ++i) {
    std::ranges::shuffle(all, random);
    std::vector<Digest> order;
    for (const Operation& o : fixed_order(all)) order.push_back(o.id);
    CHECK(order == expected);
    // On disk it is the same, whatever the order in which they come.
    OperationStage stage;
    for (const Operation& o : all) stage.add(o), stage.add(o);
    stage.settle();
    std::vector<Digest> staged;
    stage.visit([&](const Operation& o) {
      staged.push_back(o.id);
      CHECK(encode(o) == encode(*std::ranges::find(all, o.id, &Operation::id)));
      CHECK(stage.place_of(o.id) == staged.size());
      CHECK(stage.at(staged.size()).id == o.id);
    });
    CHECK(staged == expected);
    CHECK(stage.size() == expected.size());
  }
  // What comes after one that is nowhere is taken out, and the rest keeps its order.
  OperationStage stage;
  for (const Operation& o : {merge, aside, late, root}) stage.add(o);
  std::vector<Digest> lost, left, without_early = {merge.id, aside.id};
  std::ranges::sort(without_early);
  stage.take_out_incomplete([&](const Operation& o) { lost.push_back(o.id); });
  stage.settle();
  stage.visit([&](const Operation& o) { left.push_back(o.id); });
  std::ranges::sort(lost);
  CHECK(lost == without_early);
  CHECK(left == std::vector<Digest>{root.id, late.id});
  CHECK(stage.heads() == std::vector<Digest>{late.id});
}

TEST_CASE("a signed operation reads back, and its signature is valid for exactly what was signed") {
  const store::SigningKey key = store::generate_signing_key();
  Operation o = operation(7, {operation(1, {}).id}, R"({"n":1})");
  o.signer = key.public_key;
  o.clone = "fedcba9876543210";
  o.actor = actor_of(o.clone, o.signer);
  o.signature = store::sign(key, kOperationPurpose, signed_bytes(o));
  CHECK(signature_holds(o));
  const Operation back = decode(encode(o));
  CHECK(back.signer == o.signer);
  CHECK(signature_holds(back));
  CHECK(std::string(as_text(encode(o))).find("\"format\":2") != std::string::npos);
  CHECK(std::string(as_text(signed_bytes(o))).find("signature") == std::string::npos);
  Operation other = o;
  other.time = 8;
  CHECK_FALSE(signature_holds(other));
  other = o;
  other.body = R"({"n":2})";
  CHECK_FALSE(signature_holds(other));
  CHECK_FALSE(signature_holds(operation(7, {})));
}

TEST_CASE("bug: times before 1970 and beyond the year 9999 were taken in") {
  for (const std::int64_t time : {std::int64_t{-1}, kMostTime, std::int64_t{1} << 62, INT64_MAX}) {
    CAPTURE(time);
    CHECK(fails_with(ErrorKind::kCorrupt, "'time'", [&] { decode(encode(operation(time, {}))); }) == "");
  }
  CHECK_NOTHROW(decode(encode(operation(kMostTime - 1, {}))));
}
