// What a client sees of the tokens of a text: whole characters, without markers, up to a token that ends it or one of
// the texts that stop it. Used by the protocols.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "serve/text_pieces.h"

namespace mlx::serve {

class VisibleText {
 public:
  // A token's bytes; `first`: none of the text has been seen yet.
  using PieceOf = std::function<std::string(std::int32_t token, bool first)>;

  // `stops`: none is empty.
  VisibleText(PieceOf piece, const std::set<std::int32_t>& ends, std::vector<std::string> stops)
      : piece_(std::move(piece)), ends_(ends), stops_(std::move(stops)) {}

  // What can be shown from this token on. What may be the beginning of a stop is held back. Not after ended().
  std::string add(std::int32_t token);
  std::string rest();                                                  // what is held back at the end
  bool ended() const { return ended_; }                                // nothing is shown any more
  const std::optional<std::string>& stop() const { return stopped_; }  // the one that has ended it

 private:
  PieceOf piece_;
  const std::set<std::int32_t>& ends_;
  const std::vector<std::string> stops_;
  TextPieces pieces_;
  std::string held_;
  std::optional<std::string> stopped_;
  bool any_ = false, ended_ = false;
};

// The length of the longest end of `text` that a longer `word` begins with.
std::size_t begins_at_end(std::string_view text, std::string_view word);

}  // namespace mlx::serve
