#include "nn/letters_tokenizer.h"

#include "base/json.h"
#include "data/subword/byte_alphabet.h"

namespace mlx::nn {

// BPE without merges.
Json letters_tokenizer(const std::vector<std::string>& letters, bool bytes) {
  Json::object_t vocabulary;  // appended to, as each is another
  vocabulary.reserve(letters.size());
  for (std::size_t id = 0; id < letters.size(); ++id)
    static_cast<Json::object_t::Container&>(vocabulary)
        .emplace_back(bytes ? data::subword::to_byte_characters(letters[id]) : letters[id], id);
  const Json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", Json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", bytes ? byte_level : Json(nullptr)},
          {"post_processor", nullptr},
          {"decoder", bytes ? byte_level : Json{{"type", "Fuse"}}},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab", std::move(vocabulary)},
            {"merges", Json::array()}}}};
}

}  // namespace mlx::nn
