// API keys: who is let in, to what, and how often; what a server with keys tells those without.
#include <doctest/doctest.h>

#include "http.h"
#include "serve/access.h"
#include "serve/exchange.h"

namespace mlx::serve::test {
namespace {

constexpr std::int64_t kSecond = 1'000'000;

ApiKey key_of(const std::string& text) {
  return {.name = text, .digest = Digest::of(text)};
}

// The status that a request gets; 200 if it is let in.
int asked(Access& access, const std::string& text, Need need = Need::kInfer, std::int64_t now = kSecond) {
  try {
    (void)access.admit(text, need, now);
    return 200;
  } catch (const RefusedRequest& refused) {
    CHECK((refused.status != 429 || refused.headers.starts_with("Retry-After: ")));
    CHECK((refused.status != 401 || refused.headers.starts_with("WWW-Authenticate: ")));
    return refused.status;
  }
}

TEST_CASE("access: keys hold for their roles and their time, until they are taken away") {
  Access access;
  CHECK(asked(access, "") == 200);
  ApiKey metrics = key_of("m"), old = key_of("old");
  metrics.infer = false;
  metrics.metrics = true;
  old.expires = 5 * kSecond;
  access.set({key_of("a"), metrics, old});
  CHECK(asked(access, "a") == 200);
  CHECK(asked(access, "") == 401);
  CHECK(asked(access, "b") == 401);
  CHECK(asked(access, "", Need::kNothing) == 200);
  CHECK(asked(access, "a", Need::kMetrics) == 403);
  CHECK(asked(access, "m") == 403);
  CHECK(asked(access, "m", Need::kMetrics) == 200);
  CHECK(asked(access, "old", Need::kInfer, 5 * kSecond - 1) == 200);
  CHECK(asked(access, "old", Need::kInfer, 5 * kSecond) == 401);
  CHECK(access.admit("a", Need::kInfer, kSecond)->name == "a");
  access.set({});
  CHECK(asked(access, "a") == 401);  // nobody is let in, rather than everybody
}

TEST_CASE("access: a minute's requests come back evenly, a day's at midnight") {
  Access access;
  ApiKey often = key_of("often"), daily = key_of("daily");
  often.per_minute = 60;
  daily.per_day = 2;
  access.set({often, daily});
  std::int64_t now = 100 * kSecond;
  for (int i = 0; i < 60; ++i) CHECK(asked(access, "often", Need::kInfer, now) == 200);
  CHECK(asked(access, "often", Need::kInfer, now) == 429);
  CHECK(asked(access, "often", Need::kInfer, now + kSecond) == 200);
  CHECK(asked(access, "often", Need::kInfer, now + kSecond) == 429);
  CHECK(asked(access, "often", Need::kInfer, now) == 429);  // a clock that goes back gives nothing
  access.set({often, daily});                               // the same keys again: what was used stays so
  CHECK(asked(access, "often", Need::kInfer, now + kSecond) == 429);
  CHECK(asked(access, "daily", Need::kInfer, now) == 200);
  CHECK(asked(access, "daily", Need::kInfer, now) == 200);
  CHECK(asked(access, "daily", Need::kInfer, now) == 429);
  CHECK(asked(access, "daily", Need::kInfer, 86400 * kSecond) == 200);
}

std::string with_key(const std::string& request, const std::string& field) {
  std::string out = request;
  return out.insert(out.find("Host: test\r\n"), field + "\r\n");
}

TEST_CASE("access: a server with keys lets nobody in without one, and shows each only its models") {
  ServerOptions options;
  ApiKey all = key_of("all"), one = key_of("one");
  all.metrics = true;
  one.models = {"other"};
  options.keys = std::vector<ApiKey>{all, one};
  std::vector<Named> models = clf();
  models.push_back({"other", tiny_model()});
  std::vector<std::string> lines;
  options.access_log = [&](const std::string& line) { lines.push_back(line); };
  Running server(std::move(models), options);
  const auto status = [&](const std::string& request) { return ask(server.port(), request).status; };
  const std::string asking = post(infer(image(1)));
  CHECK(status(get("/v2/health/ready")) == 200);
  CHECK(status(asking) == 401);
  CHECK(status(get("/nothing")) == 401);
  CHECK(status(get("/metrics")) == 401);
  CHECK(status(with_key(asking, "Authorization: Bearer no")) == 401);
  CHECK(status(with_key(asking, "Authorization: Basic all")) == 401);
  for (const char* field : {"Authorization: Bearer all", "authorization: bearer all", "api-key: all", "x-api-key: all"})
    CHECK(status(with_key(asking, field)) == 200);
  CHECK(status(with_key(get("/metrics"), "api-key: all")) == 200);
  CHECK(status(with_key(get("/metrics"), "api-key: one")) == 403);
  CHECK(status(with_key(asking, "api-key: one")) == 404);
  CHECK(status(with_key(post(infer(image(1)), "", "/v2/models/other/infer"), "api-key: one")) == 200);
  const Json list = ask(server.port(), with_key(get("/v2"), "api-key: one")).json();
  CHECK(list["models"] == Json({"other"}));
  const Answer refused = ask(server.port(), get("/v1/models"));
  CHECK(refused.status == 401);
  CHECK(refused.json()["error"]["code"] == "missing_api_key");
  CHECK(refused.head.find("WWW-Authenticate: Bearer") != std::string::npos);
  // bug: the size of a body told that there is a model which the key may not ask.
  for (const char* const name : {"clf", "none"}) {
    const std::string large = fmt::format(
        "POST /v2/models/{}/infer HTTP/1.1\r\nHost: test\r\napi-key: one\r\nContent-Length: 1000000\r\n\r\n", name);
    CHECK(status(large) == 413);
  }
  // A body is not read before: the answer comes at once.
  Client client(server.port());
  client.send("POST /v2/models/clf/infer HTTP/1.1\r\nHost: test\r\nContent-Length: 1000000\r\n\r\n");
  CHECK(client.read().status == 401);
  server.stop();
  CHECK(lines.back().find("401") != std::string::npos);
  CHECK(std::ranges::any_of(lines, [](const std::string& line) { return line.ends_with(" ms all"); }));
}

TEST_CASE("access: keys change while the server runs") {
  ServerOptions options;
  options.keys = std::vector<ApiKey>{key_of("a")};
  std::promise<Control*> started;
  std::promise<void> done;
  options.watch = [&](Control& control) {
    started.set_value(&control);
    while (!control.stopping()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    done.set_value();
  };
  Running server(options);
  Control& control = *started.get_future().get();
  const auto status = [&](const std::string& key) {
    return ask(server.port(), with_key(get("/v2/models/clf"), "api-key: " + key)).status;
  };
  CHECK(status("a") == 200);
  control.set_keys({key_of("b")});
  CHECK(status("a") == 401);
  CHECK(status("b") == 200);
  server.stop();
  CHECK(done.get_future().wait_for(std::chrono::seconds(0)) == std::future_status::ready);
}

}  // namespace
}  // namespace mlx::serve::test
