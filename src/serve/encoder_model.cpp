// Encoders: texts become vectors, as /v1/embeddings asks for them and as an output of the Open Inference Protocol.
#include <fmt/format.h>

#include <memory>
#include <utility>

#include "base/error.h"
#include "graph/passes/passes.h"
#include "serve/embeddings.h"
#include "serve/infer_answer.h"
#include "serve/served_model.h"

namespace mlx::serve {
namespace {

infer::Signature signature_of_vectors(const infer::Model& model) {
  const graph::Graph& graph = model.graph();
  infer::Signature out;
  out.takes = infer::Takes::kText;
  out.inputs = {{"text_input", "BYTES", {-1}}};
  out.outputs = {{"embedding", "FP32", {-1, graph.value(graph.outputs.at(0)).dims.back().size}}};
  return out;
}

void read_texts(JsonReader& in, std::vector<std::string>& to) {
  for (in.begin_array(); in.next_element();) {
    if (in.at_array()) in.fail_here("'text_input': expected a list of texts");
    to.push_back(in.string());
    if (to.size() > kMostVectors) in.fail_here(fmt::format("'text_input': more than {} texts", kMostVectors));
  }
}

// Of shape [N] or [N,1], as clients write them.
std::vector<std::string> texts_of_request(const InferRequest& request) {
  if (request.inputs.size() != 1 || request.inputs[0].name != "text_input")
    fail(ErrorKind::kUsage, "the model takes one input: 'text_input'");
  const InputTensor& tensor = request.inputs[0];
  if (tensor.datatype != "BYTES")
    fail(ErrorKind::kUsage, "input 'text_input': datatype '{}' is not supported; expected BYTES", tensor.datatype);
  std::vector<std::string> out;
  JsonReader in(std::string_view(request.text).substr(tensor.data));
  if (JsonReader probe(in); probe.begin_array(), probe.next_element() && probe.at_array()) {
    for (in.begin_array(); in.next_element();) read_texts(in, out);
  } else {
    read_texts(in, out);
  }
  const auto count = static_cast<std::int64_t>(out.size());
  using Sizes = std::vector<std::int64_t>;
  if (count == 0 || (tensor.shape != Sizes{count} && tensor.shape != Sizes{count, 1}))
    fail(ErrorKind::kUsage, "input 'text_input': {} texts, and the shape says something else; expected [N] or [N,1]",
         count);
  return out;
}

class EncoderModel final : public ServedModel {
 public:
  EncoderModel(const ModelSpec& spec, const ServerOptions& options)
      : ServedModel(spec),
        tokenizer_(tokenizer_of(spec)),
        pooling_(infer::pooling_of(model().about()).pooling),
        signature_(signature_of_vectors(model())),
        embeddings_(model(), options.queue_limit, *metrics_) {
    embeddings_.warm_up(pooling_);
  }
  ~EncoderModel() override { finish(); }

  void infer(const Request& request, const ExchangePtr& exchange) override {
    if (request.holds_photo()) fail(ErrorKind::kUsage, "the model takes no photos; send JSON");
    const std::size_t json = request.json_size.value_or(request.body.size());
    InferRequest parsed = parse_infer_request(request.body, json, signature_, DataAs::kText);
    EmbeddingJob job{.pooling = pooling_, .exchange = exchange};
    for (const std::string& text : texts_of_request(parsed))
      job.texts.push_back(vector_tokens(vectors(), text, fmt::format("text {}", job.texts.size())));
    parsed.text.clear();
    job.answer = [this, parsed = std::move(parsed)](const std::vector<std::vector<float>>& made) {
      infer::Answers answers{static_cast<std::int64_t>(made.size()), {}};
      for (const std::vector<float>& one : made) answers.values.insert(answers.values.end(), one.begin(), one.end());
      Reply reply = infer_answer(parsed, signature_, answers, {spec().name, spec().version});
      reply.headers += version_header();
      return reply;
    };
    exchange->watch();
    if (!embeddings_.submit(std::move(job)))
      exchange->reply(busy_reply("too many texts are waiting for their vectors; try again later"));
  }

  Vectors vectors() override {
    const nn::Model& about = model().about();
    return {tokenizer_, model().signature().context, graph::vocabulary_size(about.graph), pooling_, embeddings_};
  }
  std::string tensors() const override {
    return fmt::format("\"inputs\":[{}],\"outputs\":[{}]", tensors_json(signature_.inputs),
                       tensors_json(signature_.outputs));
  }
  std::int64_t waiting() const override { return embeddings_.waiting(); }
  void finish() override { embeddings_.finish(); }

 private:
  const data::Tokenizer& tokenizer_;
  const infer::Pooling pooling_;
  const infer::Signature signature_;
  Embeddings embeddings_;
};

}  // namespace

std::unique_ptr<ServedModel> serve_encoder(const ModelSpec& spec, const ServerOptions& options) {
  return std::make_unique<EncoderModel>(spec, options);
}

}  // namespace mlx::serve
