// Header, key figures, evaluation, quantization and lineage.
#include "report/sections.h"

#include <algorithm>

#include "base/clock.h"
#include "base/json.h"
#include "report/chart.h"
#include "report/html.h"

namespace mlx::report {
namespace {

std::string tile(const std::string& label, const std::string& value, const std::string& note) {
  return fmt::format(
      "<div class=\"tile\"><div class=\"label\">{}</div><div class=\"value\">{}</div><div "
      "class=\"note\">{}</div></div>\n",
      label, value, note);
}

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

std::string bar(double share) {
  return fmt::format("<span class=\"bar\"><i style=\"width:{:.1f}%\"></i></span>", 100 * std::clamp(share, 0.0, 1.0));
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
    out += tile("Accuracy", percent(e.accuracy()),
                fmt::format("{} of {} in {} {}", count(static_cast<double>(e.correct)),
                            count(static_cast<double>(e.count)), escape(main->dataset), escape(e.split)));
    out += tile("Loss", fmt::format("{:.4f}", e.loss), "cross-entropy, " + escape(e.split));
    out += tile("Speed", count(e.images_per_second), "images a second, evaluating");
  }
  std::string size_note =
      facts.model.version.files == 1 ? "1 file" : fmt::format("{} files", facts.model.version.files);
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
                       escape(facts.model.version.name()) + " --data DATASET --split test</code></p>");
  }
  const train::Evaluation& e = main->evaluation;
  Table table;
  table.columns = {{"Class", false}, {"Precision", true}, {"Recall", true}, {"F1", true}, {"Support", true}};
  for (std::size_t i = 0; i < e.confusion.size(); ++i) {
    const train::ClassFigures f = train::class_figures(e, i);
    table.rows.push_back({escape(e.labels[i]), fmt::format("{:.4f}", f.precision), fmt::format("{:.4f}", f.recall),
                          fmt::format("{:.4f}{}", f.f1, bar(f.f1)), count(static_cast<double>(f.support))});
  }
  std::string content = fmt::format("<p class=\"soft\">{} on split <b>{}</b> of {}</p>\n",
                                    escape(facts.model.version.name()), escape(e.split), escape(main->dataset));
  content += confusion_svg(e.labels, e.confusion);
  content += "<h3>By class</h3>\n" + to_html(table);
  if (facts.model.evaluations.size() > 1) {
    Table all;
    all.columns = {{"Measured on", false}, {"Accuracy", true}, {"Loss", true}, {"Examples", true}, {"Images/s", true}};
    for (const Evaluated& other : facts.model.evaluations) {
      all.rows.push_back({escape(other.dataset + " " + other.evaluation.split), percent(other.evaluation.accuracy()),
                          fmt::format("{:.4f}", other.evaluation.loss),
                          count(static_cast<double>(other.evaluation.count)),
                          count(other.evaluation.images_per_second)});
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
    table.rows.push_back({"Accuracy", percent(here.accuracy()), percent(there->accuracy()),
                          signed_points(there->accuracy() - here.accuracy())});
    table.rows.push_back({"Loss", fmt::format("{:.4f}", here.loss), fmt::format("{:.4f}", there->loss),
                          fmt::format("{:+.4f}", there->loss - here.loss)});
    if (here.images_per_second > 0) {
      table.rows.push_back({"Images a second", count(here.images_per_second), count(there->images_per_second),
                            fmt::format("{:.2f}×", there->images_per_second / here.images_per_second)});
    }
  }
  if (before.version.bytes > 0) {
    table.rows.push_back(
        {"Size", bytes(before.version.bytes), bytes(after.version.bytes),
         fmt::format("{:.3f}×", static_cast<double>(after.version.bytes) / static_cast<double>(before.version.bytes))});
  }
  std::string content = to_html(table);
  if (!there) content += "<p class=\"soft\">Evaluate both on the same split to see what quantization changed.</p>";
  return section("quantization", "Quantization, before and after", content);
}

std::string lineage_section(const Facts& facts) {
  std::string content = lineage_svg(facts.lineage, facts.runs, facts.model.version.digest);
  if (content.empty()) return "";
  return section("lineage", "Lineage", content);
}

}  // namespace mlx::report
