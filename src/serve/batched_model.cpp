// Models of images and rows: requests become examples, which are computed in batches.
#include <algorithm>
#include <cmath>
#include <memory>

#include "base/clock.h"
#include "base/error.h"
#include "infer/answers.h"
#include "serve/batcher.h"
#include "serve/examples.h"
#include "serve/infer_answer.h"
#include "serve/served_model.h"

namespace mlx::serve {
namespace {

std::unique_ptr<infer::Session> ready_session(const infer::Model& model, std::int64_t max_batch) {
  auto session = std::make_unique<infer::Session>(model, infer::SessionOptions{.max_batch = max_batch});
  session->warm_up();
  return session;
}

class BatchedModel final : public ServedModel {
 public:
  BatchedModel(const ModelSpec& spec, const ServerOptions& options)
      : ServedModel(spec),
        reader_(signature().takes == infer::Takes::kImages ? image_reader(model()) : row_reader(model())),
        session_(ready_session(model(), options.max_batch)),
        batcher_(*session_, options.queue_limit, *metrics_) {}

  void infer(const Request& request, const ExchangePtr& exchange) override {
    const double started = seconds_now();
    auto parsed = std::make_shared<InferRequest>();
    auto job = std::make_shared<Job>();
    if (request.holds_photo()) {
      job->examples = reader_->read_photo(request.body);
      for (const infer::TensorSpec& output : signature().outputs) parsed->outputs.push_back(output.name);
    } else {
      const std::size_t json = request.json_size.value_or(request.body.size());
      *parsed = parse_infer_request(request.body, json, signature(), reader_->data());
      job->examples = reader_->read(*parsed, parsed->text);
      parsed->inputs.clear();
    }
    job->done = [this, parsed, exchange, started](const std::shared_ptr<Job>& done) {
      Reply reply = answer(*parsed, *done);
      const bool good = reply.status < 500;
      if (good)
        metrics_->inference(seconds_now() - started);
      else
        metrics_->failed();
      exchange->reply(std::move(reply));
      if (spec().live && good) spec().live->answered(std::move(done->examples.values), std::move(done->logits));
    };
    if (!batcher_.submit(std::move(job)))
      exchange->reply(full_reply(fmt::format("{} examples are waiting; try again later", batcher_.waiting())));
  }

  std::string tensors() const override {
    return fmt::format("\"inputs\":[{}],\"outputs\":[{}]", reader_->inputs_json(), tensors_json(signature().outputs));
  }
  std::int64_t waiting() const override { return batcher_.waiting(); }
  void finish() override { batcher_.finish(); }

 private:
  const infer::Signature& signature() const { return model().signature(); }

  Reply answer(const InferRequest& request, const Job& job) const {
    if (!job.error.empty()) return error_reply(500, job.error);
    if (!std::ranges::all_of(job.logits, [](float x) { return std::isfinite(x); }))
      return error_reply(500, fmt::format("{}: the model's outputs are not finite", spec().name));
    infer::Answers answers;
    infer::append_answers(model(), {job.logits.data(), job.examples.count, signature().width()}, answers);
    Reply reply = infer_answer(request, signature(), answers, {spec().name, spec().version});
    reply.headers += version_header();
    return reply;
  }

  std::unique_ptr<ExampleReader> reader_;
  std::unique_ptr<infer::Session> session_;
  Batcher batcher_;
};

}  // namespace

std::unique_ptr<ServedModel> serve_batches(const ModelSpec& spec, const ServerOptions& options) {
  return std::make_unique<BatchedModel>(spec, options);
}

}  // namespace mlx::serve
