// Connections: keep-alive, pipelining, slow and hostile clients, many at once, overload, busy ports, and a clean end.
#include <atomic>
#include <random>

#include "base/error.h"
#include "http.h"

namespace mlx::serve::test {
namespace {

TEST_CASE("one connection, many requests, also sent ahead") {
  Running server;
  Client client(server.port());
  client.send(get("/v2/health/live") + post(infer(image(3))) + get("/nowhere") + get("/v2"));
  CHECK(client.read().status == 200);
  CHECK(client.read().json()["outputs"].size() == 3);
  CHECK(client.read().status == 404);
  CHECK(client.read().status == 200);
  client.send("GET /v2 HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
  CHECK(client.read().head.find("Connection: close") != std::string::npos);
  CHECK(client.closed());
  Client old(server.port());
  old.send("GET /v2 HTTP/1.0\r\n\r\n");
  CHECK(old.read().status == 200);
  CHECK(old.closed());
}

TEST_CASE("a client that asks first is told to go on") {
  Running server;
  const std::string body = infer(image(4));
  Client client(server.port());
  client.send(
      fmt::format("POST /v2/models/clf/infer HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n",
                  body.size()));
  CHECK(client.read().status == 100);
  client.send(body);
  CHECK(client.read().status == 200);
}

TEST_CASE("a request that does not arrive in time gets 408, an idle connection is closed") {
  ServerOptions options;
  options.idle_timeout = 0.2;
  Running server(options);
  Client head(server.port()), body(server.port()), idle(server.port()), cut(server.port());
  head.send("GET /v2 HT");
  body.send("POST /v2/models/clf/infer HTTP/1.1\r\nHost: t\r\nContent-Length: 100\r\n\r\n{\"inp");
  cut.send("POST /v2/models/clf/infer HTTP/1.1\r\nHost: t\r\nContent-Length: 100\r\n\r\n{");
  cut.end_sending();
  CHECK(cut.read().status == 400);
  CHECK(head.read().status == 408);
  CHECK(body.read().status == 408);
  CHECK(idle.closed());
}

TEST_CASE("eight clients at once get their own answers") {
  Running server;
  std::vector<Json> expected;
  for (int i = 0; i < 8; ++i) expected.push_back(ask(server.port(), post(infer(image(i)))).json()["outputs"]);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      Client client(server.port());
      for (int round = 0; round < 40; ++round) {
        client.send(post(infer(image(i))));
        const Answer answer = client.read();
        if (answer.status != 200 || answer.json()["outputs"] != expected[static_cast<std::size_t>(i)]) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("too much to do is answered with 429 and Retry-After, and the server goes on") {
  ServerOptions options;
  options.queue_limit = 1;
  options.max_batch = 1;
  Running server(options);
  std::string many;
  const int count = 4000;
  for (int i = 0; i < count; ++i) many += (i ? "," : "") + image(i % 50);
  const std::string big = post(infer(many, fmt::format("[{},16]", count)));
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 8; ++i) clients.push_back(std::make_unique<Client>(server.port()));
  for (const auto& client : clients) client->send(big);
  int answered = 0, refused = 0;
  for (const auto& client : clients) {
    const Answer answer = client->read();
    answered += answer.status == 200;
    refused += answer.status == 429 && answer.head.find("Retry-After: ") != std::string::npos;
  }
  CHECK(answered >= 1);
  CHECK(refused >= 1);
  CHECK(answered + refused == 8);
  CHECK(ask(server.port(), post(infer(image(1)))).status == 200);
}

TEST_CASE("more connections than allowed get 503") {
  ServerOptions options;
  options.max_connections = 2;
  Running server(options);
  Client first(server.port()), second(server.port());
  first.send(get("/v2"));
  second.send(get("/v2"));
  CHECK(first.read().status == 200);
  CHECK(second.read().status == 200);
  Client third(server.port());
  CHECK(third.read().status == 503);
}

TEST_CASE("mutated requests never stop the server") {
  ServerOptions options;
  options.idle_timeout = 0.3;
  Running server(options);
  const std::string base = post(infer(image(1)));
  std::mt19937 random(11);
  for (int round = 0; round < 400; ++round) {
    std::string request = base;
    for (unsigned edits = 1 + random() % 8; edits > 0; --edits) {
      const std::size_t at = random() % request.size();
      switch (random() % 4) {
        case 0:
          request.erase(at, random() % 20);
          break;
        case 1:
          request.insert(at, request.substr(random() % request.size(), random() % 40));
          break;
        default:
          request[at] = static_cast<char>(random());
      }
      if (request.empty()) request = "x";
    }
    Client client(server.port());
    client.send(request);
    client.end_sending();
    const Answer answer = client.read();
    CAPTURE(request);
    CHECK((answer.status == 0 || (answer.status >= 200 && answer.status < 600)));
    CHECK(answer.status != 500);
  }
  CHECK(ask(server.port(), post(infer(image(1)))).status == 200);
}

TEST_CASE("told to stop, it answers what it has and ends") {
  Running server;
  Client idle(server.port()), slow(server.port());
  idle.send(get("/v2"));
  CHECK(idle.read().status == 200);
  const std::string request = post(infer(image(5)));
  slow.send(request.substr(0, request.size() - 10));
  slow.send("");
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  server.ask_to_stop();
  CHECK(idle.closed());
  slow.send(request.substr(request.size() - 10));
  const Answer answer = slow.read();
  CHECK(answer.status == 200);
  CHECK(answer.head.find("Connection: close") != std::string::npos);
  const std::uint16_t port = server.port();
  server.stop();
  CHECK_FALSE(Client(port).connected());
}

TEST_CASE("a busy port is a conflict, a strange address a mistake of usage") {
  Running server;
  Pool pool(1);
  const std::vector<ModelSpec> models = {Running::spec_of("clf", tiny_model(), pool)};
  Interruption stop;
  stop.raise(1);
  ServerOptions options;
  options.port = server.port();
  const auto kind = [&] {
    try {
      serve(models, options, stop);
    } catch (const Error& error) {
      CHECK_FALSE(error.hint.empty());
      return error.kind;
    }
    return ErrorKind::kNo;
  };
  CHECK(kind() == ErrorKind::kConflict);
  options.host = "no.such.host.invalid";
  CHECK(kind() == ErrorKind::kUsage);
  options.host = "192.0.2.1";
  CHECK(kind() == ErrorKind::kIo);
}

}  // namespace
}  // namespace mlx::serve::test
