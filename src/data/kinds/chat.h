// Conversations as text, in the ChatML form. A model learns what its assistant says; the rest is context. Used by
// documents.h. mlx-format-dataset(5) has the forms that are read and written.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mlx::data {

// A part of a conversation's text.
struct ChatPart {
  std::string text;
  bool learned = false;
};

// Of a list of messages, as JSON. Throws kCorrupt, "message N: …", if it is none.
std::vector<ChatPart> chat_parts(std::string_view messages);

}  // namespace mlx::data
