// Another version takes a model's place while the server runs: no request fails, what has begun ends with the version
// that it began with, and the answers say which one it was.
#include <atomic>
#include <future>

#include "http.h"

namespace mlx::serve::test {
namespace {

// A server whose control the test holds until the server stops.
struct Controlled {
  explicit Controlled(std::vector<Named> models) {
    ServerOptions options;
    options.watch = [this](Control& of_server) {
      given.set_value(&of_server);
      while (!of_server.stopping()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    };
    server.emplace(std::move(models), options);
    control = given.get_future().get();
  }
  void replace(const std::string& name, nn::Model model, const std::string& version) const {
    ModelSpec spec = Running::spec_of(name, std::move(model), pool);
    spec.version = version;
    control->replace(std::move(spec));
  }
  Answer ask_for(const std::string& request) const { return ask(server->port(), request); }

  static inline Pool pool{2};
  std::promise<Control*> given;
  std::optional<Running> server;
  Control* control = nullptr;
};

std::string version_in(const Answer& answer) {
  const std::string name = "Mlx-Model-Version: ";
  const std::size_t at = answer.head.find(name);
  return at == std::string::npos ? ""
                                 : answer.head.substr(at + name.size(), answer.head.find('\r', at) - at - name.size());
}

TEST_CASE("releases: no request fails while versions take each other's place") {
  Controlled served(clf());
  CHECK(version_in(served.ask_for(post(infer(image(1))))) == "2");
  std::atomic<bool> stop{false};
  std::atomic<int> asked{0}, failed{0};
  std::vector<std::thread> clients;
  clients.reserve(4);
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([&, i] {
      for (Client client(served.server->port()); !stop; ++asked) {
        client.send(post(infer(image(i))));
        const Answer answer = client.read();
        const bool same = answer.status == 200 && answer.json()["model_version"] == version_in(answer);
        if (!same) ++failed;
      }
    });
  }
  constexpr int kReleases = 20;
  for (int version = 3; version < 3 + kReleases; ++version) {
    served.replace("clf", tiny_model(), std::to_string(version));
    CHECK(version_in(served.ask_for(post(infer(image(1))))) == std::to_string(version));  // at once
  }
  stop = true;
  for (std::thread& client : clients) client.join();
  CHECK(failed == 0);
  CHECK(asked > 0);
  const std::string metrics = served.ask_for(get("/metrics")).body;
  CHECK(metrics.find("mlx_model_replaced_total{model=\"clf\"} 20\n") != std::string::npos);
  CHECK(metrics.find("version=\"22\"") != std::string::npos);
  CHECK(metrics.find(fmt::format("mlx_inference_seconds_count{{model=\"clf\"}} {}\n", asked + kReleases + 1)) !=
        std::string::npos);  // those of all versions
}

TEST_CASE("releases: a text that has begun is written to its end by the version that began it") {
  std::vector<Named> models;
  models.push_back({"gpt", text_model()});
  Controlled served(std::move(models));
  const auto body = [](int tokens) {
    return post_to("/v2/models/gpt/generate_stream",
                   fmt::format(R"({{"text_input":"a","parameters":{{"max_tokens":{}}}}})", tokens));
  };
  Client client(served.server->port());
  client.send(body(2000));
  const Answer head = client.head();
  CHECK(version_in(head) == "2");
  served.replace("gpt", text_model(), "3");
  Client later(served.server->port());
  later.send(body(2));
  CHECK(version_in(later.head()) == "3");
  std::size_t events = 0;
  bool same = true;
  for (std::string piece = client.chunk(); !piece.empty(); piece = client.chunk()) {
    for (std::size_t at = 0; (at = piece.find("data: ", at)) != std::string::npos; ++at) ++events;
    same = same && piece.find(R"("model_version":"3")") == std::string::npos;
  }
  CHECK(events >= 2000);
  CHECK(same);
}

TEST_CASE("releases: a version whose golden outputs differ leaves the one before in its place") {
  Controlled served(clf());
  ModelSpec spec = Running::spec_of("clf", tiny_model(), Controlled::pool);
  const std::int64_t example = spec.model->signature().example;
  graph::Tensor inputs;
  inputs.shape.rank = 2;
  inputs.shape.dims[0] = 3, inputs.shape.dims[1] = example;
  inputs.data.resize(inputs.shape.bytes());
  for (std::int64_t i = 0; i < 3 * example; ++i)
    reinterpret_cast<float*>(inputs.data.data())[i] = static_cast<float>(i % 7) / 7.0f;
  infer::Golden golden = infer::golden_of(*spec.model, inputs);
  CHECK(infer::difference_now(*spec.model, golden) == 0);
  spec.version = "3";
  spec.golden = {{"of itself", golden}};
  served.control->replace(spec);
  CHECK(version_in(served.ask_for(post(infer(image(1))))) == "3");
  reinterpret_cast<float*>(golden.outputs.data.data())[1] += 100.0f;
  spec.version = "4";
  spec.golden = {{"of itself", infer::decode_golden(infer::encode_golden(golden), "golden")}};
  CHECK_THROWS_WITH_AS(served.control->replace(spec), doctest::Contains("golden outputs of itself"), Error);
  CHECK(version_in(served.ask_for(post(infer(image(1))))) == "3");
  const std::string metrics = served.ask_for(get("/metrics")).body;
  CHECK(metrics.find("mlx_release_refused_total{model=\"clf\"} 1\n") != std::string::npos);
  CHECK(metrics.find("mlx_model_replaced_total{model=\"clf\"} 1\n") != std::string::npos);
  golden.inputs.shape.dims[1] = example / 2;  // bytes that lie
  spec.golden = {{"of itself", golden}};
  CHECK_THROWS_WITH_AS(served.control->replace(spec), doctest::Contains("golden inputs"), Error);
  CHECK_THROWS_AS(infer::decode_golden(as_bytes("none"), "golden"), Error);
}

TEST_CASE("releases: a version that cannot be served leaves the one before in its place") {
  std::vector<Named> models;
  models.push_back({"gpt", text_model()});
  Controlled served(std::move(models));
  nn::Model without = text_model();
  without.preprocessing.tokenizer.reset();
  CHECK_THROWS_WITH_AS(served.replace("gpt", std::move(without), "3"), doctest::Contains("no tokenizer"), Error);
  const Answer answer = served.ask_for(post_to("/v1/completions", R"({"prompt":"a","max_tokens":2})"));
  CHECK(answer.status == 200);
  CHECK(version_in(answer) == "2");
}

}  // namespace
}  // namespace mlx::serve::test
