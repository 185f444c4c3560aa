// A server in a thread with small models, and a client that sends raw bytes. Shared by the tests of serving.
#pragma once

#include <arpa/inet.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <future>
#include <string>
#include <thread>

#include "../nn/built.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/parallel.h"
#include "serve/http/server.h"

namespace mlx::serve::test {

inline graph::Tensor floats(const std::vector<std::int64_t>& dims, float first, float step) {
  graph::Tensor tensor;
  tensor.shape.rank = static_cast<int>(dims.size());
  std::copy(dims.begin(), dims.end(), tensor.shape.dims.begin());
  std::vector<float> values(static_cast<std::size_t>(tensor.shape.count()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = first + step * static_cast<float>((i * 7) % 11);
  tensor.data.resize(values.size() * sizeof(float));
  std::memcpy(tensor.data.data(), values.data(), tensor.data.size());
  return tensor;
}

// Images of 4x4 with one channel, three classes: flatten, dense 8 with relu, classifier.
inline nn::Model tiny_model() {
  using graph::Dim;
  nn::Model model;
  graph::Graph& g = model.graph;
  const Dim batch = Dim::sym(g.symbol("batch"));
  const graph::ValueId images = g.input("images", graph::DType::kF32, {batch, Dim::of(4), Dim::of(4), Dim::of(1)});
  const graph::ValueId flat = g.add_shaped(graph::Op::kReshape, {}, {images}, {batch, Dim::of(16)}, "flatten").at(0);
  graph::Attrs relu;
  relu.activation = graph::Activation::kRelu;
  const graph::ValueId w1 = g.parameter("dense1.weight", {Dim::of(8), Dim::of(16)}),
                       b1 = g.parameter("dense1.bias", {Dim::of(8)});
  const graph::ValueId w2 = g.parameter("classifier.weight", {Dim::of(3), Dim::of(8)}),
                       b2 = g.parameter("classifier.bias", {Dim::of(3)});
  const graph::ValueId hidden = g.add(graph::Op::kLinear, relu, {flat, w1, b1}, "dense1").at(0);
  const graph::ValueId logits = g.add(graph::Op::kLinear, {}, {hidden, w2, b2}, "classifier").at(0);
  g.values[static_cast<std::size_t>(logits)].name = "logits";
  g.outputs = {logits};
  model.family = "mlp";
  graph::Tensors tensors{{"dense1.weight", floats({8, 16}, -0.4f, 0.09f)},
                         {"dense1.bias", floats({8}, 0.1f, 0.02f)},
                         {"classifier.weight", floats({3, 8}, 0.6f, -0.11f)},
                         {"classifier.bias", floats({3}, 0.0f, 0.05f)}};
  model.weights = std::make_shared<const graph::Weights>(std::move(tensors));
  model.preprocessing = {4, 4, 1, {{0.3f}, {0.4f}}};
  model.labels = {"boot", "bag \"big\"", "shirt"};
  return model;
}

inline nn::Model initialized(const std::string& config, const nn::InputSpec& input, float scale = 1) {
  const nn::Built made = nn::built(config, input);
  nn::Model model;
  model.family = made.family;
  model.config = made.config;
  model.graph = made.graph;
  graph::Tensors tensors = nn::initialize(made.graph, made.family, 7);
  for (auto& [name, tensor] : tensors) {
    if (scale == 1 || name.ends_with("gamma")) continue;
    auto* data = reinterpret_cast<float*>(tensor.data.data());
    for (std::int64_t i = 0; i < tensor.shape.count(); ++i) data[i] *= scale;
  }
  model.weights = std::make_shared<const graph::Weights>(std::move(tensors));
  return model;
}

// Columns rooms (a number) and city (one of two, or neither); two outputs.
inline nn::Model row_model(data::TargetKind kind = data::TargetKind::kNumbers, bool impute = false) {
  nn::Model model = initialized("family = \"mlp\"\nhidden = [8]\n", nn::InputSpec::rows(3, 2));
  data::RowSchema schema;
  schema.kind = kind;
  schema.impute = impute;
  schema.features = {{"rooms", {}, 3, 2, false}, {"city", {"Bonn", "Ulm \"Süd\""}, 0, 1, false}};
  if (kind == data::TargetKind::kClass) {
    schema.targets = {{"kind", {"big", "small"}, 0, 1, false}};
  } else {
    schema.targets = {{"price", {}, 100, 10, false}, {"rent", {}, 5, 2, false}};
  }
  model.preprocessing.rows = schema;
  return model;
}

// Byte tokens, which need not be text. The weights are large, so that the prompt matters.
inline nn::Model text_model() {
  nn::Model model = initialized("family = \"gpt2\"\nlayers = 1\nwidth = 16\nheads = 2\ncontext = 12\n",
                                nn::InputSpec::tokens(256), 10);
  model.preprocessing.tokenizer = std::make_shared<data::Tokenizer>(data::Tokenizer::bytes());
  return model;
}

struct Named {
  std::string name;
  nn::Model model;
};

inline std::vector<Named> clf() {
  std::vector<Named> models;
  models.push_back({"clf", tiny_model()});
  return models;
}

// Serves each model under its name, as version 2.
class Running {
 public:
  explicit Running(ServerOptions options = {}) : Running(clf(), std::move(options)) {}
  explicit Running(std::vector<Named> models, ServerOptions options = {},
                   const kernels::Backend& backend = kernels::backend_named("ref")) {
    for (Named& named : models) specs_.push_back(spec_of(named.name, std::move(named.model), pool_, backend));
    options.port = 0;
    options.program_version = "1.2.3";
    std::promise<std::uint16_t> port;
    std::future<std::uint16_t> ready = port.get_future();
    options.listening = [&port](std::uint16_t p) { port.set_value(p); };
    thread_ = std::thread([this, options] { serve(specs_, options, stop_); });
    port_ = ready.get();
  }
  ~Running() { stop(); }
  void stop() {
    ask_to_stop();
    if (thread_.joinable()) thread_.join();
  }
  void ask_to_stop() { stop_.raise(15); }
  std::uint16_t port() const { return port_; }
  const infer::Model& model(std::size_t i = 0) const { return *specs_[i].model; }

  static ModelSpec spec_of(const std::string& name, nn::Model model, Pool& pool,
                           const kernels::Backend& backend = kernels::backend_named("ref")) {
    return {name, "2", "sha256:00", std::make_shared<const infer::Model>(std::move(model), backend, pool)};
  }

 private:
  Pool pool_{2};
  std::vector<ModelSpec> specs_;
  Interruption stop_;
  std::thread thread_;
  std::uint16_t port_ = 0;
};

struct Answer {
  int status = 0;  // 0: the connection ended without an answer
  std::string head, body;
  Json json() const { return parse_json(body, "answer"); }
  std::string error() const { return json().at("error").get<std::string>(); }
};

class Client {
 public:
  explicit Client(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  bool connected() const { return connected_; }
  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;  // the server may have closed after sending an answer
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
  }
  void end_sending() { ::shutdown(fd_.get(), SHUT_WR); }
  Answer head() {  // the head of a stream
    Answer answer;
    std::size_t end = 0;
    while ((end = received_.find("\r\n\r\n")) == std::string::npos)
      if (!receive()) return answer;
    answer.head = received_.substr(0, end + 2);
    received_.erase(0, end + 4);
    answer.status = std::atoi(answer.head.c_str() + 9);
    return answer;
  }
  Answer read(bool head_only = false) {
    Answer answer = head();
    if (answer.status == 0) return answer;
    if (answer.head.find("Transfer-Encoding: chunked") != std::string::npos) {
      for (std::string piece = chunk(); !piece.empty(); piece = chunk()) answer.body += piece;
      return answer;
    }
    const std::size_t at = answer.head.find("Content-Length: ");
    const std::size_t length = at == std::string::npos || head_only ? 0 : std::stoul(answer.head.substr(at + 16));
    while (received_.size() < length)
      if (!receive()) break;
    answer.body = received_.substr(0, length);
    received_.erase(0, length);
    return answer;
  }
  // The next chunk of a stream whose head has been read. "" at its end, and if the connection ends early.
  std::string chunk() {
    std::size_t end = 0;
    while ((end = received_.find("\r\n")) == std::string::npos)
      if (!receive()) return {};
    const std::size_t size = std::stoul(received_, nullptr, 16);
    while (received_.size() < end + 4 + size)
      if (!receive()) return {};
    std::string out = received_.substr(end + 2, size);
    received_.erase(0, end + 4 + size);
    return out;
  }
  bool closed() { return received_.empty() && !receive(); }  // waits for more bytes or the end

 private:
  bool receive() {
    pollfd polled{fd_.get(), POLLIN, 0};
    if (::poll(&polled, 1, 10'000) <= 0) return false;
    char buffer[4096];
    const ssize_t count = ::recv(fd_.get(), buffer, sizeof buffer, 0);
    if (count <= 0) return false;
    received_.append(buffer, static_cast<std::size_t>(count));
    return true;
  }
  Fd fd_;
  bool connected_ = false;
  std::string received_;
};

inline std::string get(const std::string& target, const std::string& method = "GET") {
  return fmt::format("{} {} HTTP/1.1\r\nHost: test\r\n\r\n", method, target);
}
inline std::string post_to(const std::string& target, const std::string& body) {
  return fmt::format("POST {} HTTP/1.1\r\nHost: test\r\nContent-Length: {}\r\n\r\n{}", target, body.size(), body);
}
inline std::string post(const std::string& body, const std::string& headers = "Content-Type: application/json\r\n",
                        const std::string& target = "/v2/models/clf/infer") {
  return fmt::format("POST {} HTTP/1.1\r\nHost: test\r\n{}Content-Length: {}\r\n\r\n{}", target, headers, body.size(),
                     body);
}
inline Answer ask(std::uint16_t port, const std::string& request) {
  Client client(port);
  client.send(request);
  return client.read(request.starts_with("HEAD"));
}

// An image of 16 pixels, made from a number.
inline std::string image(int n) {
  std::string out;
  for (int i = 0; i < 16; ++i) out += fmt::format("{}{}", i ? "," : "", (n * 31 + i * i * 17) % 256);
  return out;
}
inline std::string infer(const std::string& data, const std::string& shape = "[1,4,4,1]", const std::string& more = "",
                         const std::string& datatype = "UINT8") {
  return fmt::format(R"({{"inputs":[{{"name":"images","shape":{},"datatype":"{}","data":[{}]}}]{}}})", shape, datatype,
                     data, more);
}

}  // namespace mlx::serve::test
