// Chat templates, which come with models from anywhere: each writes the same text each time, or is refused, within its
// limits.
#include <ctime>

#include "base/json.h"
#include "fuzz.h"
#include "infer/jinja/template.h"

using namespace mlx;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Json variables = parse_json(
      R"({"messages": [{"role": "system", "content": "  Be \u00e4 kind. x"}, {"role": "user", "content": "h\u4e16 x"},
          {"role": "assistant", "content": null, "calls": [{"name": "f", "n": [1, 2.5, true]}]}],
          "bos_token": "<s>", "add_generation_prompt": true, "tools": null})",
      "variables");
  constexpr infer::jinja::Limits kLimits{.steps = 100'000, .bytes = 4 << 20, .output = 1 << 20};
  fuzz::errors_are_fine([&] {
    const infer::jinja::Template made(as_text({data, size}), "template");
    const std::tm now{};
    const std::string text = made.render(variables, now, kLimits);
    fuzz::require(text.size() <= kLimits.output, "the text has its limit");
    fuzz::require(is_utf8(text), "the text is UTF-8");
    fuzz::require(text == made.render(variables, now, kLimits), "a template writes the same again");
  });
  return 0;
}
