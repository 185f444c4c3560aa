// Calls of a sink and of progress as messages. Only some have an answer: the training does not wait for the others.
#include "train/remote_sink.h"

#include <array>
#include <bit>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "dist/collectives.h"

namespace mlx::train {
namespace {

constexpr double kMetricsInterval = 1.0, kProgressInterval = 0.25;  // seconds
constexpr const char* kWhat = "a message between ranks";

struct Message {
  Json text;
  Bytes bytes{};
  std::string call() const { return json_string(text, "call", kWhat); }
};

void send(dist::Communicator& all, int to, const Json& text, ByteView bytes = {}) {
  dist::send_bytes(all, to, as_bytes(canonical(text)));
  dist::send_bytes(all, to, bytes);
}

Message receive(dist::Communicator& all, int from) {
  const Bytes text = dist::receive_bytes(all, from);
  return {parse_json(as_text(text), kWhat), dist::receive_bytes(all, from)};
}

// The same bits, also of what is not finite.
Json exact(double value) {
  return std::bit_cast<std::int64_t>(value);
}
double number(const Json& exact) {
  return std::bit_cast<double>(exact.get<std::int64_t>());
}

Json to_json(const Metrics& metrics) {
  Json out = Json::array();
  for (const auto& [name, value] : metrics) out.push_back({name, exact(value)});
  return out;
}
Metrics metrics_of(const Json& json) {
  Metrics out;
  for (const Json& each : json) out.emplace_back(each.at(0).get<std::string>(), number(each.at(1)));
  return out;
}

constexpr std::array kCounts{&MemoryForecast::process, &MemoryForecast::weights,    &MemoryForecast::arena,
                             &MemoryForecast::batches, &MemoryForecast::validation, &MemoryForecast::checkpoint,
                             &MemoryForecast::peak,    &MemoryForecast::recomputed};

Json encode(const TrainingResult& result, const Profiler* profiler) {
  Json ranks = Json::array();
  for (const RankFigures& rank : result.ranks) ranks.push_back(to_json(rank));
  Json memory = Json::array();
  for (const auto count : kCounts) memory.push_back(result.memory.*count);
  return {{"call", "done"},
          {"steps", result.steps},
          {"kept", result.kept},
          {"from", result.from},
          {"stopped_early", result.stopped_early},
          {"loss", exact(result.loss)},
          {"accuracy", result.accuracy ? exact(*result.accuracy) : Json()},
          {"valid", to_json(result.valid)},
          {"seconds", exact(result.seconds)},
          {"per_second", exact(result.per_second)},
          {"peak_memory", result.peak_memory},
          {"bytes_sent", result.communication.bytes_sent},
          {"exchanging", exact(result.communication.exchanging)},
          {"waiting", exact(result.communication.waiting)},
          {"ranks", std::move(ranks)},
          {"profile", profiler ? to_json(profiler->collected()) : Json()},
          {"device", result.memory.device},
          {"memory", memory}};
}

TrainingResult decode_result(const Message& message) {
  const Json& text = message.text;
  TrainingResult out;
  out.tensors = decode_checkpoint(message.bytes, kWhat).tensors;
  out.steps = json_int(text, "steps", kWhat), out.kept = json_int(text, "kept", kWhat);
  out.from = json_int(text, "from", kWhat);
  out.stopped_early = json_bool(text, "stopped_early", kWhat);
  out.loss = number(text.at("loss"));
  if (!text.at("accuracy").is_null()) out.accuracy = number(text.at("accuracy"));
  out.valid = metrics_of(text.at("valid"));
  out.seconds = number(text.at("seconds")), out.per_second = number(text.at("per_second"));
  out.peak_memory = json_int(text, "peak_memory", kWhat);
  out.communication = {json_int(text, "bytes_sent", kWhat), number(text.at("exchanging")), number(text.at("waiting"))};
  for (const Json& rank : json_array(text, "ranks", kWhat)) out.ranks.push_back(figures_from(rank));
  out.memory.device = json_string(text, "device", kWhat);
  for (std::size_t i = 0; i < kCounts.size(); ++i) out.memory.*kCounts[i] = text.at("memory").at(i).get<std::int64_t>();
  return out;
}

[[noreturn]] void rethrow(const Json& text) {
  throw Error(static_cast<ErrorKind>(json_int(text, "kind", kWhat)), json_string(text, "message", kWhat),
              json_string(text, "hint", kWhat));
}

Bytes encode_tensors(const graph::Tensors& tensors) {
  CheckpointState state;
  state.tensors = tensors;
  return encode_checkpoint(state);
}

// The decider's line to the recorder.
class Line {
 public:
  explicit Line(dist::Communicator& all) : all_(all) {}
  void tell(const Json& text, ByteView bytes = {}) { send(all_, kRecorder, text, bytes); }
  Message ask(const char* call) {
    tell({{"call", call}});
    return receive(all_, kRecorder);
  }
  // A state that the recorder has; nullopt if it has none.
  std::optional<CheckpointState> state(const char* which) {
    const Message answer = ask(which);
    if (answer.bytes.empty()) return std::nullopt;
    return decode_checkpoint(answer.bytes, kWhat);
  }

 private:
  dist::Communicator& all_;
};

// The bar of a training, drawn by the recorder. Used by the training's own thread.
class RemoteProgress final : public Progress {
 public:
  RemoteProgress(Line& line, const Interruption& interruption) : Progress(interruption), line_(line) {}
  void begin(std::string_view stage, std::uint64_t total, std::string_view unit) override {
    line_.tell({{"call", "stage"}, {"stage", stage}, {"total", total}, {"unit", unit}});
  }
  void advance(std::uint64_t count) override { advanced_ += count; }
  void note(std::string_view text) override { note_ = text; }
  void end() override {
    tell();
    line_.tell({{"call", "stage over"}});
  }
  void warn(std::string_view text) override { line_.tell({{"call", "warn"}, {"text", text}}); }

  void end_step() {
    if (seconds_now() - told_ > kProgressInterval) tell();
  }

 private:
  void tell() {
    told_ = seconds_now();
    line_.tell({{"call", "progress"}, {"advance", std::exchange(advanced_, 0)}, {"note", note_}});
  }
  Line& line_;
  std::uint64_t advanced_ = 0;
  std::string note_;
  double told_ = 0;
};

class RemoteSink final : public RunSink {
 public:
  RemoteSink(Line& line, RemoteProgress& progress) : line_(line), progress_(progress) {}
  void begin(std::int64_t step) override { line_.tell({{"call", "begin"}, {"step", step}}); }
  void log_metric(std::int64_t step, std::string name, double value) override {
    points_.push_back({step, std::move(name), exact(value)});
  }
  void end_step() override {
    progress_.end_step();
    if (seconds_now() - told_ > kMetricsInterval) tell_metrics();
  }
  void save_checkpoint(CheckpointState state, bool best) override {
    tell_metrics();
    line_.tell({{"call", "save"}, {"best", best}}, encode_checkpoint(state));
  }
  bool wait_for_checkpoint() override { return json_bool(line_.ask("wait").text, "kept", kWhat); }
  std::optional<CheckpointState> last_checkpoint() override { return line_.state("last"); }
  void end() override {
    tell_metrics();
    line_.tell({{"call", "end"}});
  }

 private:
  void tell_metrics() {
    told_ = seconds_now();
    line_.tell({{"call", "metrics"}, {"points", std::exchange(points_, Json::array())}});
  }
  Line& line_;
  RemoteProgress& progress_;
  Json points_ = Json::array();
  double told_ = 0;
};

// The recorder's side.
class Recorder {
 public:
  Recorder(dist::Communicator& all, const LoopOptions& loop, RunSink& sink, Progress& progress)
      : all_(all), loop_(loop), sink_(sink), progress_(progress) {}

  TrainingResult run() {
    answer({{"from", static_cast<bool>(loop_.from)},
            {"hint", loop_.how_to_resume},
            {"initial", loop_.initial != nullptr},
            {"keep_state", loop_.keep_state},
            {"resume", loop_.resume}});
    for (;;) {
      const Message message = receive(all_, kDecider);
      // A signal is for the ranks, which then save what they have: it must not end the saving.
      if (!deferred_ && progress_.interruption().signal() != 0) deferred_.emplace(progress_.interruption());
      const std::string call = message.call();
      if (call == "done") {
        if (loop_.profiler) loop_.profiler->take(profile_from(message.text.at("profile")));
        return decode_result(message);
      }
      if (call == "failed") rethrow(message.text);
      take(call, message);
    }
  }

 private:
  void answer(const Json& text, ByteView bytes = {}) { send(all_, kDecider, text, bytes); }

  void take(const std::string& call, const Message& message) {
    const Json& text = message.text;
    if (call == "begin") {
      sink_.begin(json_int(text, "step", kWhat));
    } else if (call == "metrics") {
      for (const Json& point : json_array(text, "points", kWhat))
        sink_.log_metric(point.at(0).get<std::int64_t>(), point.at(1).get<std::string>(), number(point.at(2)));
      sink_.end_step();
    } else if (call == "save") {
      sink_.save_checkpoint(decode_checkpoint(message.bytes, kWhat), json_bool(text, "best", kWhat));
    } else if (call == "wait") {
      answer({{"kept", sink_.wait_for_checkpoint()}});
    } else if (call == "end") {
      sink_.end();
    } else if (call == "last") {
      const std::optional<CheckpointState> state = sink_.last_checkpoint();
      answer(Json::object(), state ? encode_checkpoint(*state) : Bytes());
    } else if (call == "from") {
      answer(Json::object(), encode_checkpoint(loop_.from()));
    } else if (call == "initial") {
      answer(Json::object(), encode_tensors(*loop_.initial));
    } else {
      show(call, text);
    }
  }

  void show(const std::string& call, const Json& text) {
    if (call == "stage") {
      progress_.begin(json_string(text, "stage", kWhat), text.at("total").get<std::uint64_t>(),
                      json_string(text, "unit", kWhat));
    } else if (call == "progress") {
      progress_.advance(text.at("advance").get<std::uint64_t>());
      progress_.note(json_string(text, "note", kWhat));
    } else if (call == "stage over") {
      progress_.end();
    } else if (call == "warn") {
      progress_.warn(json_string(text, "text", kWhat));
    } else if (call == "tell") {
      if (loop_.tell) loop_.tell(json_string(text, "text", kWhat));
    } else {
      fail(ErrorKind::kCorrupt, "{}: an unknown call '{}'", kWhat, call);
    }
  }

  dist::Communicator& all_;
  const LoopOptions& loop_;
  RunSink& sink_;
  Progress& progress_;
  std::optional<Interruption::Deferred> deferred_;
};

}  // namespace

TrainingResult record_training(dist::Communicator& all, const LoopOptions& loop, RunSink& sink, Progress& progress) {
  return Recorder(all, loop, sink, progress).run();
}

void report_training(dist::Communicator& all, LoopOptions loop, const Interruption& interruption,
                     const std::function<TrainingResult(const Reported&)>& train) {
  const Json told = receive(all, kRecorder).text;
  Line line(all);
  RemoteProgress progress(line, interruption);
  RemoteSink sink(line, progress);
  graph::Tensors initial;
  try {
    loop.resume = json_bool(told, "resume", kWhat);
    loop.keep_state = json_bool(told, "keep_state", kWhat);
    loop.how_to_resume = json_string(told, "hint", kWhat);
    loop.tell = [&](const std::string& text) { line.tell({{"call", "tell"}, {"text", text}}); };
    if (json_bool(told, "from", kWhat)) loop.from = [&] { return line.state("from").value(); };
    if (json_bool(told, "initial", kWhat)) {
      initial = line.state("initial").value().tensors;
      loop.initial = &initial;
    }
    const TrainingResult result = train({loop, sink, progress});
    line.tell(encode(result, loop.profiler), encode_tensors(result.tensors));
  } catch (const Error& error) {
    line.tell(
        {{"call", "failed"}, {"kind", static_cast<int>(error.kind)}, {"message", error.message}, {"hint", error.hint}});
  }
}

}  // namespace mlx::train
