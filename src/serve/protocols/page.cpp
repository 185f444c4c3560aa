// GET /: a page for people, who see the models and their figures there and try one. It asks as any other client does
// (page_script.cpp), and without scripts it shows all but the forms.
//
// What comes from models (names, labels, columns) is escaped, and the browser runs and loads nothing but the two parts
// whose digests the head names. Sources: Content Security Policy Level 3, HTML Living Standard.
#include "serve/protocols/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "base/hash.h"
#include "base/html.h"
#include "base/text.h"
#include "serve/json_reader.h"
#include "serve/protocols/protocol.h"
#include "serve/text_model.h"

namespace mlx::serve {
namespace {

using Out = std::back_insert_iterator<std::string>;

std::string digest_of(std::string_view part) {
  return "'sha256-" + to_base64(Digest::of(part).bytes) + "'";
}

// Nothing is kept by the browser, nor by what is between.
const std::string& page_headers() {
  static const std::string headers = fmt::format(
      "Content-Security-Policy: default-src 'none'; script-src {}; style-src {}; connect-src 'self'; "
      "img-src blob: data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n"
      "X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nCache-Control: no-store\r\n",
      digest_of(kPageScript), digest_of(kPageStyle));
  return headers;
}

std::string in_json(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

std::string in_path(std::string_view name) {  // RFC 3986
  std::string out;
  for (const char c : name) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                       std::string_view("-._~").find(c) != std::string_view::npos;
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

// One kind of model: how a person tries it, and how a program does.
struct Form {
  const char* takes;  // the key of the script's `asks`; "": there is no form
  std::string fields{};
  std::string example{};  // what follows `curl` in a shell, in which $URL is the server
};

constexpr const char* kJsonType = "-H 'Content-Type: application/json'";

std::string label_with(std::string_view text, std::string_view field) {
  return fmt::format("<label>{}{}</label>", html_escaped(text), field);
}

Form form_of_images(const ServedModel& model, const std::string& url) {
  const data::Preprocessing& form = model.model().about().preprocessing;
  const bool sound = form.takes_sounds();
  const char* const kind = sound ? "audio/wav" : "image/png";
  Form out{"images"};
  out.fields = label_with(sound ? "A sound (WAV)" : "An image",
                          fmt::format(R"(<input type="file" name="file" required accept="{}" data-type="{}">)",
                                      sound ? "audio/*,.wav" : "image/*,.pgm,.ppm", kind));
  out.fields += R"(<img class="preview" alt="the chosen file" hidden>)";
  out.example =
      fmt::format("-H 'Content-Type: {}' --data-binary @{} \"{}/infer\"", kind, sound ? "sound.wav" : "image.png", url);
  if (form.channels != 1 && form.channels != 3) return {"", "", fmt::format("\"{}\"", url)};  // no file has them
  return out;
}

std::string row_field(const data::Column& column) {
  const std::string name = fmt::format("data-column=\"{}\"", html_escaped(column.name));
  if (column.is_number())
    return label_with(column.name, fmt::format(R"(<input type="number" step="any" {} value="{}">)", name,
                                               html_escaped(brief_number(column.mean))));
  std::string choices = R"(<option value="" selected>(none)</option>)";
  for (std::size_t i = 0; i < column.values.size(); ++i) {
    const std::string value = html_escaped(column.values[i]);
    fmt::format_to(Out(choices), R"(<option value="{0}"{1}>{0}</option>)", value, i == 0 ? " selected" : "");
  }
  return label_with(column.name, fmt::format("<select {}>{}</select>", name, choices));
}

Form form_of_rows(const ServedModel& model, const std::string& url) {
  Form out{"rows", R"(<div class="fields">)"};
  std::string row;
  for (const data::Column& column : model.model().about().preprocessing.rows->features) {
    out.fields += row_field(column);
    row += fmt::format("{}{}: {}", row.empty() ? "" : ", ", in_json(column.name),
                       column.is_number() ? brief_number(column.mean) : in_json(column.values.front()));
  }
  out.fields += "</div>";
  out.example = fmt::format("{} -d {} \"{}/infer\"", kJsonType, shell_quoted("{\"rows\": [{" + row + "}]}"), url);
  return out;
}

Form form_of_text(ServedModel& model, const std::string& url) {
  constexpr std::int64_t kTokens = 256;
  const bool chat = model.text().can_chat();
  const std::int64_t context = model.model().signature().context;
  Form out{chat ? "chat" : "text"};
  out.fields = label_with(chat ? "Message" : "A text to go on with", R"(<textarea name="prompt" required></textarea>)");
  const std::string tokens = fmt::format(R"(<input type="number" name="tokens" min="1" max="{}" value="{}" required>)",
                                         context, std::clamp<std::int64_t>(context / 2, 1, kTokens));
  fmt::format_to(Out(out.fields), R"(<div class="fields">{}{}</div>)", label_with("Most tokens", tokens),
                 label_with("Temperature", R"(<input type="number" name="temperature" min="0" max="10" step="any" )"
                                           R"(value="0.7" required>)"));
  if (chat) {
    const std::string body = fmt::format(R"({{"model": {}, "messages": [{{"role": "user", "content": "Hello"}}]}})",
                                         in_json(model.spec().name));
    out.example = fmt::format("{} -d {} \"$URL/v1/chat/completions\"", kJsonType, shell_quoted(body));
  } else {
    out.example = fmt::format("{} -d '{}' \"{}/generate\"", kJsonType, R"({"text_input": "Hello"})", url);
  }
  return out;
}

Form example_of_vectors(const ServedModel& model) {
  const std::string body = fmt::format(R"({{"model": {}, "input": "Hello"}})", in_json(model.spec().name));
  return {"", "", fmt::format("{} -d {} \"$URL/v1/embeddings\"", kJsonType, shell_quoted(body))};
}

Form form_of(ServedModel& model) {
  const std::string url = "$URL/v2/models/" + in_path(model.spec().name);
  switch (model.model().signature().takes) {
    case infer::Takes::kImages:
      return form_of_images(model, url);
    case infer::Takes::kRows:
      return form_of_rows(model, url);
    case infer::Takes::kText:
      return model.writes_text() ? form_of_text(model, url) : example_of_vectors(model);
    case infer::Takes::kTensors:
      break;
  }
  return {"", "", fmt::format("\"{}\"", url)};
}

void write_form(Out out, const Form& form, bool key) {
  if (*form.takes != '\0') {
    const bool text = form.takes == std::string_view("text"), chat = form.takes == std::string_view("chat");
    // A chat's answers stand above the next message, other answers below what was asked.
    if (chat) fmt::format_to(out, R"(<div class="out" aria-live="polite"></div>)");
    fmt::format_to(out, R"(<form hidden>{}<div class="row"><button type="submit">{}</button>)", form.fields,
                   chat ? "Send" : "Ask");
    if (text || chat) fmt::format_to(out, R"(<button type="button" class="plain stop" hidden>Stop</button>)");
    if (chat) fmt::format_to(out, R"(<button type="button" class="plain again">New chat</button>)");
    fmt::format_to(out, R"(</div></form><p class="wrong" role="alert"></p>)");
    if (!chat) fmt::format_to(out, R"(<div class="out" aria-live="polite"></div>)");
  }
  fmt::format_to(out, R"(<details><summary>From a program</summary><pre>curl {}{}</pre></details>)",
                 html_escaped(key ? R"(-H "Authorization: Bearer $KEY" )" : ""), html_escaped(form.example));
}

// The bound below which so much of what was counted stands; "–" where nothing was.
std::string quantile(const Histogram& times, double share) {
  std::uint64_t all = 0;
  for (const std::uint64_t count : times.counts) all += count;
  if (all == 0) return "–";
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < times.bounds.size(); ++i) {
    below += times.counts[i];
    if (static_cast<double>(below) >= share * static_cast<double>(all))
      return fmt::format("≤ {} ms", brief_number(1e3 * times.bounds[i]));
  }
  return fmt::format("> {} s", brief_number(times.bounds.back()));
}

void write_figure(Out out, const char* name, const std::string& value) {
  fmt::format_to(out, "<div><dt>{}</dt><dd>{}</dd></div>", name, value);
}

void write_figures(Out out, const ModelSample& sample, bool text) {
  const ModelCounts& counts = sample.counts;
  std::uint64_t answers = 0;
  for (const std::uint64_t count : counts.latency.counts) answers += count;
  write_figure(out, "Answers", grouped(answers));
  if (text) {
    write_figure(out, "Tokens", grouped(counts.tokens));
    const double speed = counts.compute_seconds > 0 ? static_cast<double>(counts.tokens) / counts.compute_seconds : 0;
    write_figure(out, "Tokens a second", counts.tokens > 0 ? brief_number(speed) : "–");
  } else {
    write_figure(out, "Examples", grouped(counts.examples));
  }
  write_figure(out, "Half of answers", quantile(counts.latency, 0.5));
  write_figure(out, "99 of 100", quantile(counts.latency, 0.99));
  write_figure(out, "Waiting", grouped(static_cast<std::uint64_t>(std::max<std::int64_t>(0, sample.queued))));
}

std::string labels_json(const std::vector<std::string>& labels) {
  std::string out = "[";
  for (const std::string& label : labels) {
    if (out.size() > 1) out += ',';
    append_json_string(out, label);
  }
  return out + "]";
}

// `key`: of who asks; null where none is needed.
void write_model(Out out, ServedModel& model, const ApiKey* key) {
  const infer::Signature& signature = model.model().signature();
  const bool text = model.writes_text();
  const ModelSample sample = model.sample();
  const Form form = form_of(model);
  fmt::format_to(out, R"(<section class="model" data-model="{0}" data-takes="{1}" data-labels="{2}"><h2>{0}</h2>)",
                 html_escaped(sample.model), form.takes, text ? "[]" : html_escaped(labels_json(signature.labels)));
  fmt::format_to(out, R"(<p class="about soft">version {} · {} · {}</p><dl class="figures">)",
                 html_escaped(sample.version), html_escaped(model.model().about().family),
                 html_escaped(sample.precision));
  if (key == nullptr || key->metrics) write_figures(out, sample, text);
  fmt::format_to(out, "</dl>");
  write_form(out, form, key != nullptr);
  fmt::format_to(out, "</section>");
}

constexpr const char* kEnter =
    R"(<noscript><p>This server needs an API key, which this page asks for with a script.</p></noscript>)"
    R"(<form id="enter" hidden><label>API key (kept until this page is closed)<input id="key" type="password" )"
    R"(autocomplete="off" required></label><div class="row"><button type="submit">Open</button></div>)"
    R"(<p class="wrong" role="alert"></p></form>)";

std::string page_html(const Asked& asked) {
  std::string html;
  const Out out(html);
  fmt::format_to(out,
                 R"(<!doctype html><html lang="en"><head><meta charset="utf-8"><title>mlx</title>)"
                 R"(<meta name="viewport" content="width=device-width,initial-scale=1"><link rel="icon" href="data:,">)"
                 R"(<style>{}</style></head><body><header><h1>Models</h1>)",
                 kPageStyle);
  if (asked.locked) {
    fmt::format_to(out, "</header><main>{}", kEnter);
  } else {
    fmt::format_to(out, R"(<p class="soft">mlx {}{}</p></header><main>)", html_escaped(asked.options.program_version),
                   asked.ready ? "" : " · stops");
    for (const auto& model : asked.models.all()) write_model(out, *model, asked.request.key.get());
    if (asked.models.all().empty()) fmt::format_to(out, "<p>There is no model here for this key.</p>");
    fmt::format_to(out, "<noscript><p>The forms for trying a model need a script of this page.</p></noscript>");
  }
  fmt::format_to(out, "</main><script>{}</script></body></html>\n", kPageScript);
  return html;
}

void page(const Asked& asked) {
  asked.exchange->reply({.body = page_html(asked), .type = "text/html; charset=utf-8", .headers = page_headers()});
}

std::string page_error(const Reply& reply) {
  return error_json(reply.error);
}

constexpr Route kPageRoutes[] = {{Route::At::kPath, "/", "GET, HEAD", false, Need::kOptional, page}};

}  // namespace

const Protocol kPage = {"/", "", kPageRoutes, page_error};

}  // namespace mlx::serve
