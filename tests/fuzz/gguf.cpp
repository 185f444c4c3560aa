// Language models in GGUF files: whatever they say, rows of tensors are whole blocks inside of the file, a
// configuration is one that its reader takes, and a tokenizer is one that mlx reads, or an error. Text that begins with
// a brace is a config.json instead.
#include "data/subword/tokenizer_json.h"
#include "fuzz.h"
#include "nn/encoder_config.h"
#include "nn/gguf_config.h"
#include "nn/gguf_tensors.h"
#include "nn/gguf_tokenizer.h"

using namespace mlx;
using namespace mlx::nn;

namespace {

void expand(const GgufTensors::Tensor& tensor) {
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < tensor.shape.size(); ++i) rows *= tensor.shape[i];
  fuzz::require(static_cast<std::uint64_t>(rows * tensor.row_bytes()) == tensor.bytes.size(), "tensors are whole rows");
  std::vector<float> numbers(static_cast<std::size_t>(tensor.row()));
  for (std::int64_t row = 0; row < rows; ++row)
    expand_blocks(*tensor.type,
                  tensor.bytes.subspan(static_cast<std::size_t>(row * tensor.row_bytes()),
                                       static_cast<std::size_t>(tensor.row_bytes())),
                  numbers.data());
  (void)finite_scales(*tensor.type, tensor.bytes);
}

void check_config(std::string_view text) {
  const DecoderConfig config = read_decoder_config(text, 0, "config.json");
  fuzz::require(config.blocks.size() == static_cast<std::size_t>(config.layers), "each layer is a block");
  fuzz::require(config.heads % config.kv_heads == 0 && config.head > 0, "heads share keys");
  for (const DecoderLayer& layer : config.blocks) {
    fuzz::require(layer.window >= 0 && layer.window < config.context, "windows hide something");
    fuzz::require(config.gpt2 || layer.rope.slow >= 1, "turns are slowed");
    fuzz::require(layer.rope.ramp_begin >= 0 && layer.rope.ramp_begin <= layer.rope.ramp_end, "ramps rise");
  }
}

void check_encoder(std::string_view text) {
  const EncoderConfig config = read_encoder_config(text, 0, "config.json");
  fuzz::require(config.width % config.heads == 0 && config.layers > 0, "heads share the width");
  fuzz::require(config.context > 0 && config.context + config.first_position <= config.positions,
                "every token has a position");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 0 && data[0] == '{') {
    fuzz::errors_are_fine([&] { check_config(as_text({data, size})); });
    fuzz::errors_are_fine([&] { check_encoder(as_text({data, size})); });
    return 0;
  }
  fuzz::errors_are_fine([&] {
    const GgufTensors file = read_gguf_tensors({data, size}, "file");
    for (const auto& [name, tensor] : file.tensors) expand(tensor);
    fuzz::errors_are_fine([&] {
      const GgufFacts facts{8, [&](std::string_view name) { return file.tensors.contains(std::string(name)); }, {}};
      const std::string config = read_gguf_config(file.metadata, facts, "file");
      fuzz::require(read_decoder_config(config, 0, "file").layers > 0, "a model has layers");
    });
    const std::optional<std::string> tokenizer = read_gguf_tokenizer(file.metadata, "file");
    if (tokenizer) (void)data::subword::read_tokenizer_json(*tokenizer, "file");
  });
  return 0;
}
