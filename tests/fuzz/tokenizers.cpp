// tokenizer.json and tokenizer.model, which come with models from anywhere, and what they make of text: ids lie in the
// vocabulary, places in the text.
#include "data/subword/sentencepiece.h"
#include "data/subword/tokenizer_json.h"
#include "fuzz.h"

using namespace mlx;
using namespace mlx::data::subword;

namespace {

constexpr std::string_view kTexts[] = {"The cat's 123 mats,  and\n\tthat\r\n HAT!! <s>",
                                       "\xE2\x96\x81 e\xCC\x81 \xED\x95\x9C\xEA\xB5\xAD \xF0\x9F\x99\x82\xFF\xC3",
                                       "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};

void use(const Pipeline& pipeline) {
  Scratch scratch;
  for (const std::string_view text : kTexts) {
    Tokens plain, placed;
    pipeline.encode(text, {.special = true}, scratch, plain);
    pipeline.encode(text, {.special = true, .spans = true}, scratch, placed);
    fuzz::require(plain.ids == placed.ids, "places change no token");
    fuzz::require(placed.spans.size() == placed.ids.size(), "each token has a place");
    for (const std::int32_t id : plain.ids)
      fuzz::require(id >= 0 && static_cast<std::size_t>(id) < pipeline.names.size(), "tokens are of the vocabulary");
    for (const Span& span : placed.spans)
      fuzz::require(span.begin <= text.size() && span.end <= text.size(), "places lie in the text");
    (void)pipeline.decode(plain.ids, false);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes = as_text({data, size});
  fuzz::errors_are_fine([&] {
    use(may_be_sentencepiece(bytes) ? read_sentencepiece(bytes, "file") : read_tokenizer_json(bytes, "file"));
  });
  return 0;
}
