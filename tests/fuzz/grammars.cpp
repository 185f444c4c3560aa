// Grammars and JSON schemas, which come with requests from anywhere: each is refused, or becomes an automaton whose
// texts are found again, within its limits.
#include "base/json.h"
#include "fuzz.h"
#include "infer/grammar/gbnf.h"
#include "infer/grammar/json_schema.h"
#include "infer/grammar/states.h"

using namespace mlx;
using namespace mlx::infer::grammar;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const bool schema = input.byte() % 2 == 0;
  std::uint32_t choices = input.number() | 1;
  const std::string source(as_text(input.rest()));
  fuzz::errors_are_fine([&] {
    const Rules rules = schema ? parse_schema(source, "schema") : parse_gbnf(source, "grammar");
    const auto automaton = std::make_shared<const Automaton>(rules, "it");
    States states(automaton, "it");
    // Some text of it.
    States::Set set = states.number_of(states.start());
    std::string text;
    while (text.size() < 200 && !states.must_end(set)) {
      const States::Row& row = states.row(set);
      choices = choices * 1664525 + 1013904223;
      std::uint32_t byte = choices >> 24, tried = 0;
      while (row[byte] == States::kNone && tried++ < 256) byte = (byte + 1) % 256;
      if (row[byte] == States::kNone) {
        fuzz::require(states.may_end(set), "every beginning of a text goes on or may end");
        break;
      }
      text += static_cast<char>(static_cast<unsigned char>(byte));
      set = row[byte];
      fuzz::require(!states.places(set).empty(), "a set that is not the empty one has places");
    }
    const bool ends = states.may_end(set);
    if (ends) fuzz::require(is_utf8(text), "texts are UTF-8");
    if (ends && schema) (void)Json::parse(text);
    // The same after all is forgotten.
    states.forget_sets();
    set = states.number_of(states.start());
    for (const char c : text) set = states.row(set)[static_cast<unsigned char>(c)];
    fuzz::require(set != States::kNone && states.may_end(set) == ends, "a text is read again as it was");
  });
  return 0;
}
