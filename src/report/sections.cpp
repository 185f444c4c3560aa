// Header, main metrics, evaluation, quantization and lineage.
#include "report/sections.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "registry/versions/lineage.h"
#include "report/chart.h"
#include "report/html.h"

namespace mlx::report {
namespace {

// The evaluation of `other` on the same data as `like`.
const train::Evaluation* same_data(const ModelFacts& other, const train::Evaluation& like) {
  for (const Evaluated& e : other.evaluations)
    if (e.evaluation.data == like.data && e.evaluation.split == like.split) return &e.evaluation;
  return nullptr;
}

std::string signed_points(double difference) {
  return fmt::format("<span class=\"{}\">{:+.2f} points</span>", difference < -0.003 ? "bad" : "good",
                     100 * difference);
}

std::string images_of(const ModelFacts& model) {
  if (model.height == 0) return "";
  return fmt::format("{} × {} × {} images", model.height, model.width, model.channels);
}

std::optional<double> metric_of(const train::Evaluation& e, std::string_view name) {
  for (const auto& [known, value] : e.metrics)
    if (known == name) return value;
  return std::nullopt;
}

// The displayed name of a metric of train::Evaluation.
std::string title_of(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, const char*>, 9> kTitles = {{{"accuracy", "Accuracy"},
                                                                                {"top5_accuracy", "Top-5 accuracy"},
                                                                                {"macro_f1", "F1, mean of classes"},
                                                                                {"auc", "AUC"},
                                                                                {"perplexity", "Perplexity"},
                                                                                {"bits_per_byte", "Bits per byte"},
                                                                                {"rmse", "RMSE"},
                                                                                {"mae", "Mean absolute error"},
                                                                                {"r2", "R²"}}};
  for (const auto& [known, title] : kTitles)
    if (known == name) return title;
  return escape(std::string(name));
}

std::string main_metric_text(const train::Evaluation& e) {
  const char* const name = train::main_metric(e);
  if (name == std::string_view("accuracy")) return percent(e.accuracy());
  const std::optional<double> value = metric_of(e, name);
  return value ? brief_number(*value) : "";
}

Table metrics_table(const train::Evaluation& e) {
  Table table;
  table.columns = {{"", false}, {"Value", true}};
  for (const auto& [name, value] : e.metrics) table.rows.push_back({title_of(name), brief_number(value)});
  return table;
}

Table targets_table(const train::Evaluation& e) {
  Table table;
  table.columns = {{"Target", false}, {"RMSE", true}, {"Mean absolute error", true}, {"R²", true}};
  for (std::size_t i = 0; i < e.numbers.size(); ++i) {
    const train::NumberMetrics& n = e.numbers[i];
    table.rows.push_back({escape(i < e.labels.size() ? e.labels[i] : std::to_string(i)), brief_number(n.rmse),
                          brief_number(n.mae), fmt::format("{:.4f}", n.r2)});
  }
  return table;
}

Table classes_table(const train::Evaluation& e) {
  Table table;
  table.columns = {{"Class", false}, {"Precision", true}, {"Recall", true}, {"F1", true}, {"Support", true}};
  const std::size_t classes = e.confusion.empty() ? e.classes.size() : e.confusion.size();
  for (std::size_t i = 0; i < classes; ++i) {
    const train::ClassMetrics f = train::class_metrics(e, i);
    table.rows.push_back({escape(e.labels[i]), fmt::format("{:.4f}", f.precision), fmt::format("{:.4f}", f.recall),
                          fmt::format("{:.4f}{}", f.f1, bar(f.f1)), count(static_cast<double>(f.support))});
  }
  return table;
}

}  // namespace

std::string header(const Facts& facts) {
  const registry::Version& version = facts.model.version;
  std::string out = "<header>\n<h1>" + escape(version.name()) + "</h1>\n";
  if (!version.message.empty()) out += "<p class=\"soft\">" + escape(version.message) + "</p>\n";
  out += "<p>";
  std::vector<std::string> chips = {facts.model.family, facts.model.precision, images_of(facts.model)};
  if (facts.model.classes > 0) chips.push_back(fmt::format("{} classes", facts.model.classes));
  for (const std::string& alias : version.aliases) chips.push_back("@" + alias);
  for (const std::string& tag : version.tags) chips.push_back("tag " + tag);
  for (const std::string& chip : chips)
    if (!chip.empty()) out += "<span class=\"chip\">" + escape(chip) + "</span>";
  return out + fmt::format("<br><code class=\"soft\">{}</code> <span class=\"soft\">· {}</span></p>\n</header>\n",
                           version.digest.text(), iso_time(version.time).substr(0, 10));
}

std::string tiles(const Facts& facts) {
  std::string out = "<div class=\"tiles\">\n";
  if (const Evaluated* main = facts.model.main_evaluation()) {
    const train::Evaluation& e = main->evaluation;
    if (e.has_accuracy()) {
      out += tile("Accuracy", percent(e.accuracy()),
                  fmt::format("{} of {} in {} {}", count(static_cast<double>(e.correct)),
                              count(static_cast<double>(e.count)), escape(main->dataset), escape(e.split)));
    }
    for (const char* name : {"bits_per_byte", "r2", "rmse"}) {
      if (const std::optional<double> value = metric_of(e, name))
        out += tile(title_of(name), brief_number(*value), escape(main->dataset + " " + e.split));
    }
    out += tile("Loss", fmt::format("{:.4f}", e.loss),
                (e.has_accuracy() ? "cross-entropy, " : "mean squared error, scaled, ") + escape(e.split));
    out += tile("Speed", count(e.per_second), fmt::format("{} a second, evaluating", e.unit));
  }
  std::string size_note = counted(facts.model.version.files, "file");
  if (facts.before && facts.before->version.digest != facts.model.version.digest && facts.before->version.bytes > 0)
    size_note =
        fmt::format("{:.3f} of {}",
                    static_cast<double>(facts.model.version.bytes) / static_cast<double>(facts.before->version.bytes),
                    escape(facts.before->version.name()));
  out += tile("Size", bytes(facts.model.version.bytes), size_note);
  if (facts.training && !facts.training->summary.empty()) {
    const Json summary = parse_json(facts.training->summary, "summary");
    if (summary.contains("seconds") && summary.contains("steps") && summary["seconds"].is_number() &&
        summary["steps"].is_number())
      out += tile("Training", fmt::format("{:.1f} s", summary["seconds"].get<double>()),
                  count(summary["steps"].get<double>()) + " steps");
  }
  return out + "</div>\n";
}

std::string evaluation_section(const Facts& facts) {
  const Evaluated* main = facts.model.main_evaluation();
  if (!main) {
    return section("evaluation", "Evaluation",
                   "<p class=\"soft\">This version has not been measured yet: <code>mlx eval " +
                       escape(shell_quoted(facts.model.version.name())) + " --data DATASET --split test</code></p>");
  }
  const train::Evaluation& e = main->evaluation;
  std::string content = fmt::format("<p class=\"soft\">{} on split <b>{}</b> of {}</p>\n",
                                    escape(facts.model.version.name()), escape(e.split), escape(main->dataset));
  if (!e.confusion.empty()) content += confusion_svg(e.labels, e.confusion);
  if (!e.metrics.empty()) content += "<h3>Metrics</h3>\n" + to_html(metrics_table(e));
  if (!e.numbers.empty()) content += "<h3>By target</h3>\n" + to_html(targets_table(e));
  if (!e.classes.empty() || !e.confusion.empty()) content += "<h3>By class</h3>\n" + to_html(classes_table(e));
  if (facts.model.evaluations.size() > 1) {
    const char* const main_name = train::main_metric(e);
    const std::string speed = fmt::format("{}/s", e.unit);
    Table all;
    all.columns = {
        {"Measured on", false}, {title_of(main_name), true}, {"Loss", true}, {"Examples", true}, {speed, true}};
    for (const Evaluated& other : facts.model.evaluations) {
      all.rows.push_back({escape(other.dataset + " " + other.evaluation.split), main_metric_text(other.evaluation),
                          fmt::format("{:.4f}", other.evaluation.loss),
                          count(static_cast<double>(other.evaluation.count)), count(other.evaluation.per_second)});
    }
    content += "<h3>Every evaluation</h3>\n" + to_html(all);
  }
  return section("evaluation", "Evaluation", content);
}

std::string quantization_section(const Facts& facts) {
  if (!facts.before || !facts.after) return "";
  const ModelFacts &before = *facts.before, &after = *facts.after;
  Table table;
  table.columns = {{"", false},
                   {escape(before.version.name() + " · " + before.precision), true},
                   {escape(after.version.name() + " · " + after.precision), true},
                   {"Change", true}};
  const Evaluated* main = before.main_evaluation();
  const train::Evaluation* there = main ? same_data(after, main->evaluation) : nullptr;
  if (main && there) {
    const train::Evaluation& here = main->evaluation;
    table.caption = "Measured on " + escape(main->dataset) + ", split " + escape(here.split);
    if (here.has_accuracy()) {
      table.rows.push_back({"Accuracy", percent(here.accuracy()), percent(there->accuracy()),
                            signed_points(there->accuracy() - here.accuracy())});
    }
    table.rows.push_back({"Loss", fmt::format("{:.4f}", here.loss), fmt::format("{:.4f}", there->loss),
                          fmt::format("{:+.4f}", there->loss - here.loss)});
    if (here.per_second > 0) {
      std::string unit = here.unit;
      unit[0] = static_cast<char>(unit[0] - 'a' + 'A');
      table.rows.push_back({unit + " a second", count(here.per_second), count(there->per_second),
                            fmt::format("{:.2f}×", there->per_second / here.per_second)});
    }
  }
  if (before.version.bytes > 0) {
    table.rows.push_back(
        {"Size", bytes(before.version.bytes), bytes(after.version.bytes),
         fmt::format("{:.3f}×", static_cast<double>(after.version.bytes) / static_cast<double>(before.version.bytes))});
  }
  if (const std::optional<QuantizationLoss>& loss = after.loss) {
    const std::string text =
        fmt::format(" on {} tokens of {} {}", loss->tokens, escape(loss->dataset), escape(loss->split));
    table.rows.push_back({"Perplexity" + text, fmt::format("{:.4f}", loss->perplexity_before),
                          fmt::format("{:.4f}", loss->perplexity),
                          fmt::format("{:+.2f} %", 100 * (loss->perplexity / loss->perplexity_before - 1))});
    table.rows.push_back({"KL divergence" + text, "", fmt::format("{:.3g}", loss->kl_divergence), ""});
    table.rows.push_back({"Top-1 agreement" + text, "", percent(loss->top1_agreement), ""});
  }
  std::string content = to_html(table);
  if (!there && !after.loss)
    content += "<p class=\"soft\">Evaluate both on the same split to see what quantization changed.</p>";
  return section("quantization", "Quantization, before and after", content);
}

std::string lineage_section(const Facts& facts) {
  std::string content = lineage_svg(facts.lineage, facts.runs, facts.model.version.digest);
  if (content.empty()) return "";
  return section("lineage", "Lineage", content);
}

}  // namespace mlx::report
