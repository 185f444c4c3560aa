// See generate.h.
#include "serve/protocols/generate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <utility>

#include "serve/infer_answer.h"
#include "serve/json_reader.h"
#include "serve/protocols/generate_request.h"
#include "serve/protocols/tokens.h"
#include "serve/text_model.h"
#include "serve/text_pieces.h"

namespace mlx::serve {
namespace {

// Whole at the end, or an event for each token.
class GenerateAnswer final : public TextAnswer {
 public:
  GenerateAnswer(const TextModel& model, std::string id, bool stream, ExchangePtr exchange)
      : id_(std::move(id)),
        stream_(stream),
        exchange_(std::move(exchange)),
        names_{model.spec().name, model.spec().version},
        headers_(model.version_header()),
        tokenizer_(model.tokenizer()) {}

  bool token(const infer::Drawn& drawn) override {
    const std::string piece = pieces_.add(tokenizer_.piece(drawn.token));
    const std::string logprobs = drawn.logprobs ? logprobs_json(tokenizer_, *drawn.logprobs) : "";
    if (stream_) {
      event(json(piece, "", logprobs));
    } else {
      text_ += piece;
      if (!logprobs.empty()) logprobs_ += (logprobs_.empty() ? "" : ",") + logprobs;
    }
    return true;
  }

  void end(const infer::Generated& made) override {
    const std::string rest = pieces_.rest();
    if (stream_) {
      if (!rest.empty()) event(json(rest, "", ""));
      begin();
      return exchange_->end();
    }
    Reply reply = json_reply(200, json(text_ + rest,
                                       made.stopped    ? "stop_sequence"
                                       : made.complete ? "eos_token"
                                                       : "length",
                                       logprobs_));
    reply.headers = headers_;
    exchange_->reply(std::move(reply));
  }

  void failed(const Reply& why) override {
    if (!begun_) return exchange_->reply(why);
    event(error_json(why.error));
    exchange_->end();
  }

 private:
  std::string json(std::string_view text, std::string_view finish_reason, std::string_view logprobs) const {
    std::string out = "{\"model_name\":";
    append_json_string(out, names_.model);
    out += ",\"model_version\":";
    append_json_string(out, names_.version);
    if (!id_.empty()) {
      out += ",\"id\":";
      append_json_string(out, id_);
    }
    out += ",\"text_output\":";
    append_json_string(out, text);
    std::vector<std::string> details;
    if (!finish_reason.empty()) details.push_back(fmt::format(R"("finish_reason":"{}")", finish_reason));
    if (!logprobs.empty()) details.push_back(fmt::format(R"("logprobs":{{"content":[{}]}})", logprobs));
    if (!details.empty()) out += fmt::format(R"(,"details":{{{}}})", fmt::join(details, ","));
    out += '}';
    return out;
  }

  void begin() {
    if (std::exchange(begun_, true)) return;
    Reply head = event_stream();
    head.headers += headers_;
    exchange_->begin(std::move(head));
  }

  void event(const std::string& data) {
    begin();
    exchange_->write("data: " + data + "\n\n");
  }

  const std::string id_;
  const bool stream_;
  const ExchangePtr exchange_;
  const ModelNames names_;
  const std::string headers_;
  const data::Tokenizer& tokenizer_;
  TextPieces pieces_;
  std::string text_, logprobs_;
  bool begun_ = false;
};

TextShape shape_of(const GenerateRequest& request) {
  if (!request.schema.empty())
    return {.kind = TextShape::Kind::kSchema, .source = request.schema, .what = "parameter 'json_schema'"};
  if (!request.grammar.empty())
    return {.kind = TextShape::Kind::kGbnf, .source = request.grammar, .what = "parameter 'grammar'"};
  return {};
}

}  // namespace

void generate(const Asked& asked, bool stream) {
  TextModel& model = asked.model->text();
  const GenerateRequest request = parse_generate_request(asked.request.body);
  std::vector<TextJob> jobs(1);
  jobs[0].request = {.prompt = model.prompt_tokens(request.prompt, "text_input"),
                     .count = request.max_tokens,
                     .sampling = request.sampling,
                     .stops = {model.tokenizer().encode(request.stop, "parameter 'stop'")},
                     .logprobs = request.logprobs,
                     .grammar = model.grammars().of(shape_of(request))};
  jobs[0].answer = std::make_unique<GenerateAnswer>(model, request.id, stream, asked.exchange);
  jobs[0].exchange = asked.exchange;
  submit(model, std::move(jobs), asked.exchange);
}

}  // namespace mlx::serve
