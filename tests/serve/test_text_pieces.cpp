// Tokens' bytes as text: what is cut between tokens, and what is no text at all.
#include <doctest/doctest.h>

#include <random>

#include "base/bytes.h"
#include "base/json.h"
#include "serve/text_pieces.h"

namespace mlx::serve {
namespace {

// As `mlx predict --json` writes it.
std::string whole(const std::string& bytes) {
  return Json::parse(Json(bytes).dump(-1, ' ', false, Json::error_handler_t::replace)).get<std::string>();
}

TEST_CASE("a character comes with its last byte") {
  TextPieces pieces;
  CHECK(pieces.add("a") == "a");
  CHECK(pieces.add("k\xc3").find("k") == 0);
  CHECK(pieces.add("\xa4s") == "äs");
  CHECK(pieces.add("\xf0\x9f\x98") == "");
  CHECK(pieces.add("\x80") == "\U0001F600");
  CHECK(pieces.add("\xe2\x82") == "");
  CHECK(pieces.rest() == "\uFFFD");
  CHECK(pieces.rest() == "");
}

TEST_CASE("the pieces of any bytes, put together, are the text of the whole") {
  std::mt19937 random(3);
  const std::string alphabet = "a\x80\xbf\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\xff\xed\xa0\xc0\xf5";
  for (int round = 0; round < 5000; ++round) {
    std::string bytes, joined;
    TextPieces pieces;
    for (unsigned i = random() % 12; i > 0; --i) {
      std::string token;
      for (unsigned n = random() % 3; n > 0; --n) token += alphabet[random() % alphabet.size()];
      const std::string piece = pieces.add(token);
      CHECK(is_utf8(piece));
      bytes += token;
      joined += piece;
    }
    joined += pieces.rest();
    CAPTURE(to_hex(as_bytes(bytes)));
    CHECK(joined == whole(bytes));
  }
}

}  // namespace
}  // namespace mlx::serve
