// A seeded random history of everything that operations record, for the tests of rebuilding and merging.
#pragma once

#include <cmath>
#include <random>

#include "base/error.h"
#include "base/json.h"
#include "clone.h"
#include "registry/record/undo.h"

namespace mlx::registry::test {

class HistoryMaker {
 public:
  explicit HistoryMaker(unsigned seed) : random_(seed) {}

  void make(Repository& repo, int steps) {
    for (int i = 0; i < steps; ++i) one(repo);
  }

  int undone = 0;

 private:
  unsigned below(unsigned n) { return static_cast<unsigned>(random_() % n); }
  std::string text() { return "content " + std::to_string(random_()); }
  bool is_model() { return below(2) == 0; }

  std::optional<Version> any_version(Repository& repo) {
    const std::vector<Version> all = versions(repo);
    if (all.empty()) return std::nullopt;
    return all[below(static_cast<unsigned>(all.size()))];
  }

  void one(Repository& repo) {
    const unsigned what = below(12);
    if (what < 3) return add_version(repo);
    if (what < 7) return do_run(repo);
    const std::optional<Version> version = any_version(repo);
    if (!version) return add_version(repo);
    const std::string label = version->artifact.substr(0, 1) + std::to_string(below(3));
    if (what == 7) return move_alias(repo, "alias-" + label, *version);
    if (what == 8)
      return attach(repo, version->digest, below(2) == 0 ? "evaluation" : "report", label, as_bytes(text()));
    if (what >= 10) return undo_something(repo);
    if (!version->tags.empty() && below(2) == 0) {
      delete_tag(repo, version->tags.front(), *version);
      return;
    }
    create_tag(repo, "tag-" + std::to_string(random_()), *version);
  }

  // Undoes a random operation, or nothing if that one cannot be undone.
  void undo_something(Repository& repo) {
    const std::vector<Operation> all = repo.operations();
    const Operation& any = all[below(static_cast<unsigned>(all.size()))];
    try {
      switch (below(4)) {
        case 0:
          undo(repo, "", false);
          break;
        case 1:
          undo(repo, "", true);
          break;
        default:
          undo(repo, any.id.hex(), false);
      }
      ++undone;
    } catch (const Error&) {
    }
  }

  void add_version(Repository& repo) {
    const bool model = is_model();
    NewVersion version =
        new_version(repo, model ? "clf" + std::to_string(below(2)) : "data/" + std::to_string(below(2)), text(),
                    model ? ArtifactKind::kModel : ArtifactKind::kDataset);
    if (const auto parent = any_version(repo)) version.parent = parent->digest;
    create_version(repo, version);
  }

  void log_some(Repository& repo, const std::string& run, std::int64_t from) {
    std::vector<MetricPoint> points;
    for (std::int64_t step = from; step < from + 1 + below(20); ++step) {
      points.push_back({step, "train/loss", below(50) == 0 ? std::nan("") : static_cast<double>(random_()) / 1e6,
                        static_cast<std::int64_t>(random_())});
      if (below(3) == 0) points.push_back({step, "valid/accuracy", static_cast<double>(random_()) / 1e10, 5});
    }
    log_metrics(repo, run, points);
  }

  void do_run(Repository& repo) {
    RunStart start = run_start(below(2) == 0 ? "train" : "eval", "key " + std::to_string(below(20)));
    if (const auto input = any_version(repo)) start.inputs.emplace_back("data", input->digest);
    const std::string run = start_run(repo, start);
    log_some(repo, run, 0);
    for (unsigned n = below(4), step = 10; n > 0; --n, step += 10) {
      record_checkpoint(repo, {.run = run, .step = step, .manifest = Digest::of(text()), .best = below(2) == 0});
    }
    if (below(3) == 0) {
      end_run(repo, run, RunStatus::kInterrupted, {}, Json::object(), "signal 15");
      resume_run(repo, run, 10);
      log_some(repo, run, 11);
    }
    std::vector<RunOutput> outputs;
    if (const auto output = any_version(repo)) outputs.push_back({"model", output->digest});
    Json summary;
    summary["loss"] = static_cast<double>(random_()) / 1e9;
    const RunStatus status[] = {RunStatus::kDone, RunStatus::kFailed, RunStatus::kInterrupted};
    end_run(repo, run, status[below(3)], outputs, summary, below(2) == 0 ? "" : "why");
  }

  std::mt19937 random_;
};

// Copies everything from one repository to another without a remote: blobs of metrics, then operations.
inline void bring(Repository& from, Repository& to) {
  const std::vector<Operation> operations = from.operations();
  const auto batch = to.store().begin();
  for (const Operation& operation : operations) {
    if (operation.kind != "run.end") continue;
    const Json body = parse_json(operation.body, "body");
    if (body["metrics"].is_string())
      batch->add_blob(from.store().read_blob(Digest::parse(body["metrics"].get<std::string>())));
  }
  batch->commit();
  to.store().reload();
  to.merge(operations);
}

}  // namespace mlx::registry::test
