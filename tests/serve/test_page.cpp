// GET /: what the page shows to whom, and that nothing from a model becomes a part of it.
#include <doctest/doctest.h>

#include "base/hash.h"
#include "http.h"

namespace mlx::serve::test {
namespace {

std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const std::size_t from = text.find(begin) + begin.size();
  return text.substr(from, text.find(end, from) - from);
}

std::size_t times(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

bool holds(const Answer& answer, const std::string& part) {
  return answer.body.find(part) != std::string::npos;
}

TEST_CASE("page: each kind of model with its form; the browser runs only what the head names") {
  std::vector<Named> models = clf();
  models.push_back({"price", row_model()});
  models.push_back({"gpt", text_model()});
  Running server(std::move(models));
  const Answer page = ask(server.port(), get("/"));
  REQUIRE(page.status == 200);
  CHECK(page.head.find("Content-Type: text/html; charset=utf-8\r\n") != std::string::npos);
  for (const char* line : {"X-Content-Type-Options: nosniff\r\n", "Referrer-Policy: no-referrer\r\n",
                           "Cache-Control: no-store\r\n", "default-src 'none'; ", "; connect-src 'self'; ",
                           "; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n"})
    CHECK_MESSAGE(page.head.find(line) != std::string::npos, line);
  for (const char* part : {"script", "style"}) {
    CAPTURE(part);
    const std::string text = between(page.body, fmt::format("<{}>", part), fmt::format("</{}>", part));
    const std::string digest = fmt::format("{}-src 'sha256-{}';", part, to_base64(Digest::of(text).bytes));
    CHECK(page.head.find(digest) != std::string::npos);
    CHECK(times(page.body, fmt::format("<{}", part)) == 1);
  }
  CHECK(!holds(page, "http://"));  // it loads nothing
  CHECK(!holds(page, "https://"));
  CHECK(holds(page, R"(data-model="clf" data-takes="images" data-labels="[&quot;boot&quot;,)"));
  CHECK(holds(page, R"(data-model="price" data-takes="rows")"));
  CHECK(holds(page, R"(<input type="number" step="any" data-column="rooms" value="3">)"));
  CHECK(holds(page, R"(<option value="Ulm &quot;Süd&quot;">)"));
  CHECK(holds(page, R"(data-model="gpt" data-takes="text" data-labels="[]")"));
  CHECK(holds(page, R"(name="tokens" min="1" max="12" value="6")"));
  CHECK(holds(page, "<dt>Answers</dt><dd>0</dd>"));
  CHECK(ask(server.port(), post(infer(image(1)))).status == 200);
  const Answer after = ask(server.port(), get("/?again"));
  CHECK(holds(after, "<dt>Answers</dt><dd>1</dd></div><div><dt>Examples</dt><dd>1</dd>"));
  const Answer head = ask(server.port(), get("/", "HEAD"));
  CHECK(head.status == 200);
  CHECK(head.body.empty());
  CHECK(ask(server.port(), post("{}", "", "/")).status == 405);
}

TEST_CASE("page: names, labels and columns are text, in the command for a shell too") {
  const std::string evil = "</pre></script><script>alert(1)</script>\"'><img src=x onerror=alert(1)>&\xff";
  nn::Model images = tiny_model(), rows = row_model();
  images.labels[0] = evil;
  rows.preprocessing.rows->features[0].name = evil;
  rows.preprocessing.rows->features[1].values = {evil, "x'; rm -rf $HOME; '"};
  std::vector<Named> models;
  models.push_back({evil, std::move(images)});
  models.push_back({"rows", std::move(rows)});
  Running server(std::move(models));
  const Answer page = ask(server.port(), get("/"));
  REQUIRE(page.status == 200);
  CHECK(times(page.body, "<script") == 1);
  CHECK(!holds(page, "<img src"));
  CHECK(holds(page, "<h2>"));
  CHECK(is_utf8(page.body));
  CHECK(holds(page, "/v2/models/%3C%2Fpre%3E"));
  CHECK(holds(page, "&#39;\\&#39;&#39;&gt;&lt;img"));  // '\'' in single quotes
}

TEST_CASE("page: without a key it shows none of the models, with one those that the key may ask") {
  ApiKey all{.name = "all", .digest = Digest::of("all"), .metrics = true};
  ApiKey one{.name = "one", .digest = Digest::of("one"), .models = {"other"}};
  ApiKey metrics{.name = "m", .digest = Digest::of("m"), .infer = false, .metrics = true};
  ServerOptions options;
  options.keys = std::vector<ApiKey>{all, one, metrics};
  std::vector<Named> models = clf();
  models.push_back({"other", tiny_model()});
  Running server(std::move(models), options);
  const auto with = [&](const std::string& key) {
    return ask(server.port(), fmt::format("GET / HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {}\r\n\r\n", key));
  };
  const Answer locked = ask(server.port(), get("/"));
  CHECK(locked.status == 200);
  CHECK(holds(locked, R"(<form id="enter")"));
  CHECK(!holds(locked, "clf"));
  CHECK(!holds(locked, "1.2.3"));
  CHECK(!holds(locked, "class=\"model\""));
  const Answer open = with("all");
  CHECK(!holds(open, R"(<form id="enter")"));
  CHECK(times(open.body, "class=\"model\"") == 2);
  CHECK(holds(open, "<dt>Answers</dt>"));
  CHECK(holds(open, "<pre>curl -H &quot;Authorization: Bearer $KEY&quot; -H "));
  const Answer restricted = with("one");
  CHECK(times(restricted.body, "class=\"model\"") == 1);
  CHECK(holds(restricted, R"(data-model="other")"));
  CHECK(!holds(restricted, "clf"));
  CHECK(!holds(restricted, "<dt>Answers</dt>"));
  CHECK(with("none").status == 401);
  CHECK(with("none").error().find("no such API key") != std::string::npos);
  CHECK(with("m").status == 403);
}

}  // namespace
}  // namespace mlx::serve::test
