// One model of a server, under the name that requests call it by. Knows its requests and answers, nothing of HTTP's
// paths and sockets.
//
// Used by the protocols on the server's one I/O thread; the work is done on threads of the model's own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "infer/model.h"
#include "serve/exchange.h"
#include "serve/metrics.h"
#include "serve/options.h"

namespace mlx::serve {

class TextModel;
struct Vectors;

class ServedModel {
 public:
  explicit ServedModel(ModelSpec spec)
      : metrics_(spec.metrics ? spec.metrics : std::make_shared<ModelMetrics>()), spec_(std::move(spec)) {}
  virtual ~ServedModel() = default;
  ServedModel(const ServedModel&) = delete;
  ServedModel& operator=(const ServedModel&) = delete;

  const ModelSpec& spec() const { return spec_; }
  const infer::Model& model() const { return *spec_.model; }
  ModelSample sample() const;
  const std::shared_ptr<ModelMetrics>& metrics() const { return metrics_; }
  std::string version_header() const;  // "Mlx-Model-Version: 2", as a line of a reply's head

  // Answers through the exchange, now or later. Throws Error for a bad request, and then has not answered.
  virtual void infer(const Request& request, const ExchangePtr& exchange) = 0;
  // The model as one that generates text. Throws kUsage if it is none.
  virtual TextModel& text();
  // The model as one that makes vectors of texts (embeddings.h). Throws kUsage if it is none.
  virtual Vectors vectors();
  virtual bool writes_text() const { return false; }
  virtual std::string tensors() const = 0;   // of the metadata: "inputs":[…],"outputs":[…]
  virtual std::int64_t waiting() const = 0;  // examples or texts
  virtual void finish() = 0;                 // answers all that waits; nothing is asked after this

 protected:
  const std::shared_ptr<ModelMetrics> metrics_;

 private:
  ModelSpec spec_;
};

// Plans what the model will need, so that the first request is as fast as the next. kUsage for a model that takes
// neither images, rows nor text, or text without a tokenizer.
std::unique_ptr<ServedModel> serve_model(const ModelSpec& spec, const ServerOptions& options);
std::unique_ptr<ServedModel> serve_batches(const ModelSpec& spec, const ServerOptions& options);  // images, rows
std::unique_ptr<ServedModel> serve_encoder(const ModelSpec& spec, const ServerOptions& options);
std::unique_ptr<ServedModel> serve_text(const ModelSpec& spec, const ServerOptions& options);

// Of a model of text. Throws kUsage where it has none.
const data::Tokenizer& tokenizer_of(const ModelSpec& spec);

}  // namespace mlx::serve
