// config.json of outside encoders: what is read, what is refused by name, and the graph that follows.
#include "nn/encoder_config.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "base/json.h"
#include "graph/passes/passes.h"
#include "nn/encoder_graph.h"

using namespace mlx;
using namespace mlx::nn;

namespace {

Json bert() {
  return {{"architectures", {"BertModel"}}, {"vocab_size", 40},       {"hidden_size", 16},
          {"intermediate_size", 24},        {"num_hidden_layers", 2}, {"num_attention_heads", 4},
          {"max_position_embeddings", 64}};
}

EncoderConfig read_with(const Json& patch, std::int64_t context = 0) {
  Json json = bert();
  json.merge_patch(patch);
  return read_encoder_config(json.dump(), context, "config.json");
}

std::string refusal(const Json& patch, ErrorKind kind, std::int64_t context = 0) {
  try {
    (void)read_with(patch, context);
  } catch (const Error& error) {
    CHECK(error.kind == kind);
    return error.message;
  }
  return "it was read";
}

bool says(const std::string& text, const char* part) {
  if (text.find(part) != std::string::npos) return true;
  MESSAGE(text);
  return false;
}

}  // namespace

TEST_CASE("encoder config: BERT, RoBERTa and DistilBERT") {
  const EncoderConfig config = read_with(Json::object());
  CHECK(config.segments == 2);
  CHECK(config.first_position == 0);
  CHECK(config.context == 64);
  CHECK(config.activation == kernels::Op::kGeluErf);
  CHECK(read_with(Json::object(), 7).context == 7);
  CHECK(read_with({{"hidden_act", "gelu_new"}}).activation == kernels::Op::kGelu);

  const EncoderConfig roberta = read_with({{"architectures", {"RobertaModel"}}, {"pad_token_id", 1}});
  CHECK(roberta.first_position == 2);
  CHECK(roberta.context == 62);
  CHECK(read_with({{"architectures", {"XLMRobertaModel"}}, {"pad_token_id", 0}}).context == 63);

  const EncoderConfig distilled = read_encoder_config(Json({{"architectures", {"DistilBertModel"}},
                                                            {"vocab_size", 40},
                                                            {"dim", 16},
                                                            {"hidden_dim", 24},
                                                            {"n_layers", 2},
                                                            {"n_heads", 4},
                                                            {"max_position_embeddings", 64}})
                                                          .dump(),
                                                      0, "config.json");
  CHECK(distilled.segments == 0);
  CHECK(distilled.epsilon == 1e-12f);
}

TEST_CASE("encoder config: what is not supported, and numbers that no encoder has") {
  CHECK(says(refusal({{"architectures", {"MPNetModel"}}}, ErrorKind::kUsage), "the architecture \"MPNetModel\""));
  CHECK(says(refusal({{"hidden_act", "silu"}}, ErrorKind::kUsage), "the activation 'silu'"));
  CHECK(says(refusal({{"is_decoder", true}}, ErrorKind::kUsage), "is_decoder"));
  CHECK(says(refusal({{"position_embedding_type", "relative_key"}}, ErrorKind::kUsage), "relative_key"));
  CHECK(says(refusal({{"quantization_config", {{"quant_method", "gptq"}}}}, ErrorKind::kUsage), "gptq"));
  CHECK(says(refusal(Json::object(), ErrorKind::kUsage, 65), "a context of 65"));
  CHECK(says(refusal({{"num_attention_heads", 3}}, ErrorKind::kCorrupt), "3 heads do not divide"));
  CHECK(says(refusal({{"hidden_size", 1e30}}, ErrorKind::kCorrupt), "'hidden_size'"));
  CHECK(says(refusal({{"type_vocab_size", 0}}, ErrorKind::kCorrupt), "'type_vocab_size'"));
  CHECK(says(refusal({{"architectures", {"RobertaModel"}}, {"pad_token_id", 63}}, ErrorKind::kCorrupt),
             "leave none behind 'pad_token_id'"));
}

TEST_CASE("encoder graph: states for ids, in both directions, of a table from the first position on") {
  const EncoderConfig config = read_with({{"architectures", {"RobertaModel"}}, {"pad_token_id", 1}}, 30);
  const OutsideGraph built = build_encoder(config, "");
  graph::validate(built.graph);
  CHECK(graph::is_encoder(built.graph));
  CHECK_FALSE(graph::is_language_model(built.graph));
  CHECK_FALSE(graph::decodes_with_cache(built.graph));
  CHECK(graph::vocabulary_size(built.graph) == 40);
  const ParameterSource& positions = built.sources.at("positions.weight");
  CHECK(positions.first_row == 2);
  CHECK(positions.parts.at(0).shape == std::vector<std::int64_t>{64, 16});
  CHECK(built.graph.value(built.graph.find("positions.weight")).dims[0] == graph::Dim::of(30));
  const graph::EncodingGraph encoding = graph::to_encoding(built.graph);
  graph::validate(encoding.graph);
  CHECK(encoding.graph.inputs.size() == 2);
}
