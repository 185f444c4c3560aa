// Plans, starts and restarts the ranks of a training.
#include "cmd/train_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/module.h"
#include "base/path.h"
#include "base/text.h"
#include "cmd/hosts.h"
#include "cmd/ranks.h"
#include "cmd/returning_hosts.h"
#include "dist/device_links.h"
#include "dist/launch_key.h"
#include "dist/mpi.h"
#include "dist/returns.h"

namespace mlx::cmd {
namespace {

// For rank 0, and for the other ranks of this machine.
std::vector<std::string> arguments_of(const TrainCommand& options, const train::TrainConfig& config,
                                      const std::vector<ReadyHost>& hosts, bool again) {
  std::vector<std::string> out{"train", "-c", options.config};
  std::string list;
  for (const ReadyHost& host : hosts)
    if (host.host.ranks > 0) list += fmt::format("{}{}:{}", list.empty() ? "" : ",", host.host.name, host.host.ranks);
  if (hosts.size() > 1)
    out.insert(out.end(), {"--hosts", list});
  else
    out.insert(out.end(), {"--ranks", std::to_string(hosts[0].host.ranks)});
  out.insert(out.end(), {"--set", fmt::format("train.accumulate={}", config.accumulate)});
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) out.insert(out.end(), {name, value});
  };
  for (const std::string& set : options.sets) add("--set", set);
  if (options.verify_every > 0) add("--verify-every", std::to_string(options.verify_every));
  if (options.encrypt) out.emplace_back("--encrypt");
  add("--resume", again ? "" : options.resume);
  add("--device", options.device);
  add("--precision", options.precision);
  add("--numerics", options.numerics);
  add("--memory", options.memory);
  add("--trace", options.trace);
  // It goes on from the checkpoint of what was begun.
  for (const auto& [name, given] :
       {std::pair{"--fresh", options.fresh && !again}, std::pair{"--force", options.force && !again},
        std::pair{"--merge", options.merge}, std::pair{"--profile", options.profile}})
    if (given) out.emplace_back(name);
  return out;
}

Json stages_json(const std::vector<train::StageMemory>& stages) {
  Json out = Json::array();
  for (const train::StageMemory& stage : stages) {
    out.push_back({{"first", stage.layers.first},
                   {"last", stage.layers.last},
                   {"micro_batches", stage.micro_batches},
                   {"memory", train::to_json(stage.memory)}});
  }
  return out;
}

void print_stages(const std::vector<train::StageMemory>& stages, Context& context) {
  const auto size = [](std::int64_t bytes) { return format_bytes(static_cast<std::uint64_t>(bytes)); };
  for (std::size_t i = 0; stages.size() > 1 && i < stages.size(); ++i) {
    const train::StageMemory& stage = stages[i];
    context.line(fmt::format(
        "  stage {}  {} to {}, {} without data: weights and optimizer {}, activations of {} micro-batch{} {}", i + 1,
        stage.layers.first, stage.layers.last, size(stage.memory.peak), size(stage.memory.weights), stage.micro_batches,
        stage.micro_batches == 1 ? "" : "es", size(stage.memory.arena)));
  }
}

// Of the ranks of the stage that sends most.
dist::Traffic traffic_of(const std::vector<train::StageMemory>& stages) {
  dist::Traffic most;
  for (const train::StageMemory& stage : stages)
    if (stage.traffic.bytes > most.bytes) most = stage.traffic;
  return most;
}

void print_plan(const train::TrainConfig& config, const std::vector<ReadyHost>& hosts, const train::Inquiry& inquiry,
                Context& context) {
  const std::int64_t rank_memory = inquiry.memory;
  const dist::Traffic traffic = traffic_of(inquiry.stages);
  int ranks = 0;
  Json places = Json::array();
  for (const ReadyHost& host : hosts) {
    if (host.host.ranks == 0) continue;
    ranks += host.host.ranks;
    places.push_back({{"host", host.host.name},
                      {"ranks", host.host.ranks},
                      {"threads", threads_of(host)},
                      {"cores", host.facts.cores},
                      {"memory", host.facts.memory},
                      {"rank_memory", rank_memory},
                      {"bytes_to_send", host.missing},
                      {"lacks_mlx", host.lacks_mlx}});
  }
  if (context.wants_json())
    context.json({{"schema", "mlx.train/1"},
                  {"dry_run", true},
                  {"unchanged", false},
                  {"ranks", ranks},
                  {"tp", config.tp},
                  {"zero", config.zero},
                  {"pp", config.pp},
                  {"async", config.async},
                  {"accumulate", config.accumulate},
                  {"step_traffic", {{"bytes", traffic.bytes}, {"messages", traffic.messages}}},
                  {"stages", config.pp > 1 ? stages_json(inquiry.stages) : Json::array()},
                  {"hosts", places}});
  const std::string each =
      config.ranks_of_model() > 1 ? fmt::format(", {} for each model", config.ranks_of_model()) : "";
  context.line(fmt::format("would train {} on {}{}, a batch in {} parts", context.bold(config.name),
                           counted(static_cast<std::uint64_t>(ranks), "rank"), each, config.accumulate));
  if (traffic.bytes > 0) {
    context.line(fmt::format("  each rank sends {} of gradients{} in {} a step",
                             format_bytes(static_cast<std::uint64_t>(traffic.bytes)),
                             config.synchronised_norms ? " and for batch norms" : "",
                             counted(static_cast<std::uint64_t>(traffic.messages), "message")));
  }
  print_stages(inquiry.stages, context);
  for (const ReadyHost& host : hosts) {
    if (host.host.ranks == 0) continue;
    if (host.lacks_mlx) {
      context.line(fmt::format("  {}  {}, after mlx is sent there", host.host.name,
                               counted(static_cast<std::uint64_t>(host.host.ranks), "rank")));
      continue;
    }
    const auto size = [](std::uint64_t bytes) { return format_bytes(bytes); };
    context.line(fmt::format("  {}  {} of {} and {} without data, {} of memory free, {} to send", host.host.name,
                             counted(static_cast<std::uint64_t>(host.host.ranks), "rank"),
                             counted(static_cast<std::uint64_t>(threads_of(host)), "thread"),
                             size(static_cast<std::uint64_t>(rank_memory)),
                             size(static_cast<std::uint64_t>(host.facts.memory)), size(host.missing)));
  }
}

int ranks_of(const std::vector<ReadyHost>& hosts) {
  int ranks = 0;
  for (const ReadyHost& host : hosts) ranks += host.host.ranks;
  return ranks;
}

std::string hosts_text(const std::vector<ReadyHost>& hosts) {
  const auto count = std::ranges::count_if(hosts, [](const ReadyHost& host) { return host.host.ranks > 0; });
  return fmt::format("{} of {}", counted(static_cast<std::uint64_t>(ranks_of(hosts)), "rank"),
                     counted(static_cast<std::uint64_t>(count), "host"));
}

// Runs the ranks, again and again: without the hosts that are lost, and with those that are back.
class Launcher {
 public:
  Launcher(const TrainCommand& options, const std::vector<dist::Host>& hosts, const train::TrainConfig& config,
           const RankNeeds& needs, std::vector<ReadyHost> ready, Context& context)
      : options_(options),
        hosts_(hosts),
        config_(config),
        needs_(needs),
        shares_{config.accumulate, config.ranks_of_model(), options.min_ranks},
        given_(std::move(ready)),
        ready_(given_),
        context_(context) {}

  int run() {
    // Failures that follow each other soon are not those of hosts.
    constexpr double kSoon = 60;  // seconds
    constexpr int kMostSoon = 3;
    for (int soon = 0;;) {
      const double begin = seconds_now();
      std::vector<std::string> suspects;
      try {
        if (const std::optional<int> code = run_until_back()) return *code;
      } catch (const Error& error) {
        soon = seconds_now() - begin < kSoon ? soon + 1 : 0;
        if (options_.min_ranks == 0 || error.kind != ErrorKind::kIo || soon == kMostSoon) throw;
        context_.progress().warn(error.message);
        suspects = returns_.suspects(seconds_now());
      }
      context_.progress().interruption().check();
      go_on(suspects);
    }
  }

 private:
  // Nullopt if a host is back.
  std::optional<int> run_until_back() {
    RanksCall call{arguments_of(options_, config_, ready_, again_), options_.encrypt, taken_back_, {}};
    again_ = true;
    if (returns_.missing().empty()) return run_on_ranks(ready_, call, context_);
    const dist::HostFacts own = own_facts(context_);
    const int ranks = ranks_of(ready_);
    const auto can = [&](const dist::Host& host, const dist::HostFacts& facts) {
      return shares_.usable(ranks + host.ranks) > ranks &&
             dist::obstacles(own, facts, {needs_.portable, needs_.memory * host.ranks}).empty();
    };
    const ReturningHosts asked(given_, returns_, can, context_.environment());
    call.pauses = [&] { return asked.found(); };
    return run_on_ranks(ready_, call, context_);
  }

  void go_on(const std::vector<std::string>& suspects) {
    const std::vector<std::string> missed = returns_.missing();
    ready_ = hosts_left(hosts_, shares_, suspects, needs_, context_);
    std::vector<std::string> back;
    for (const dist::Host& host : hosts_) {
      const bool here = std::ranges::any_of(ready_, [&](const ReadyHost& of) { return of.host.name == host.name; });
      if (!here) returns_.lose(host.name, seconds_now());
      if (!here || std::ranges::find(missed, host.name) == missed.end()) continue;
      returns_.take_back(host.name, seconds_now());
      back.push_back(host.name);
    }
    std::ranges::copy(back, std::back_inserter(taken_back_));
    if (!back.empty()) send_data(ready_, needs_, context_);
    const std::string who =
        back.empty() ? "" : fmt::format("{} {} back: ", fmt::join(back, ", "), back.size() == 1 ? "is" : "are");
    context_.say(fmt::format("{}going on from the last checkpoint on {}", who, hosts_text(ready_)));
  }

  const TrainCommand& options_;
  const std::vector<dist::Host>& hosts_;
  const train::TrainConfig& config_;
  const RankNeeds& needs_;
  RankShares shares_;
  std::vector<ReadyHost> given_, ready_;  // when it began, and now
  Context& context_;
  dist::Returns returns_;
  std::vector<std::string> taken_back_;
  bool again_ = false;
};

std::vector<dist::Host> named_hosts(const TrainCommand& options, Context& context) {
  if (!options.hosts.empty()) return dist::parse_hosts(options.hosts);
  if (!options.hostfile.empty())
    return dist::parse_hostfile(read_text(join_path(context.folder(), options.hostfile)), options.hostfile);
  return {{dist::kThisHost, options.ranks == kNotGiven ? 1 : static_cast<int>(options.ranks)}};
}

}  // namespace

std::vector<dist::Host> hosts_of(const TrainCommand& options, Context& context) {
  const int given = (options.ranks != kNotGiven) + !options.hosts.empty() + !options.hostfile.empty();
  if (given > 1) fail(ErrorKind::kUsage, "--ranks, --hosts and --hostfile exclude each other");
  if (options.ship && options.hosts.empty() && options.hostfile.empty())
    fail(ErrorKind::kUsage, "--ship is for --hosts and --hostfile");
  if (options.ranks != kNotGiven && (options.ranks < 1 || options.ranks > kMostRanks))
    fail(ErrorKind::kUsage, "--ranks {}: expected 1 to {}", options.ranks, kMostRanks);
  if (options.min_ranks < 0 || options.min_ranks > kMostRanks)
    fail(ErrorKind::kUsage, "--min-ranks {}: expected 1 to {}", options.min_ranks, kMostRanks);
  if (options.tp != kNotGiven && options.tp < 1)
    fail(ErrorKind::kUsage, "--tp {}: expected the number of ranks that hold one model", options.tp);
  if (options.pp != kNotGiven && options.pp < 1)
    fail(ErrorKind::kUsage, "--pp {}: expected the number of stages of a model", options.pp);
  if (options.verify_every < 0)
    fail(ErrorKind::kUsage, "--verify-every {}: expected a number of steps", options.verify_every);
  const std::vector<dist::Host> hosts = named_hosts(options, context);
  if (options.min_ranks > dist::ranks_on(hosts))
    fail(ErrorKind::kUsage, "--min-ranks {}: there are {}", options.min_ranks,
         counted(static_cast<std::uint64_t>(dist::ranks_on(hosts)), "rank"));
  return hosts;
}

std::string where_text(const TrainCommand& options) {
  if (!options.hosts.empty()) return " --hosts " + options.hosts;
  if (!options.hostfile.empty()) return " --hostfile " + shell_quoted(options.hostfile);
  return options.ranks > 1 ? fmt::format(" --ranks {}", options.ranks) : "";
}

void check_encrypt(const TrainCommand& options, const std::vector<dist::Host>& hosts, Context& context) {
  if (!options.encrypt || context.environment().get(dist::kLaunchVariable)) return;
  if (dist::ranks_started(context.environment()) > 1) {
    throw Error(
        ErrorKind::kUsage, "--encrypt: something else than mlx has started these ranks, and nobody has a key for them",
        "mlx train --hosts hands keys out over ssh; elsewhere use a network that is encrypted, such as WireGuard");
  }
  if (hosts.size() > 1) return;
  throw Error(ErrorKind::kUsage, "--encrypt: all ranks are on this machine, and send nothing over a network",
              "leave it out, or name other hosts: --hosts");
}

void check_devices(const std::vector<dist::Host>& hosts, const kernels::Backend& backend) {
  if (!backend.can().own_memory) return;
  const std::size_t devices = kernels::devices_of(backend).size();
  for (const dist::Host& host : hosts)
    if (host.here() && static_cast<std::size_t>(host.ranks) > devices)
      dist::refuse_devices(host.name, devices, static_cast<std::size_t>(host.ranks));
}

int launch(const TrainCommand& options, const std::vector<dist::Host>& hosts, const train::TrainConfig& config,
           const train::Inquiry& inquiry, Context& context) {
  const RankNeeds needs{inquiry.dataset, inquiry.base, config.portable, inquiry.memory, options.ship};
  const bool several = hosts.size() > 1;
  std::vector<ReadyHost> ready =
      several || context.dry_run()
          ? ask_hosts(hosts, needs, context)
          : std::vector<ReadyHost>{{hosts[0], {.program = executable_path(), .cores = threads_here(context)}}};
  if (context.dry_run()) return print_plan(config, ready, inquiry, context), 0;
  send_data(ready, needs, context);
  return Launcher(options, hosts, config, needs, std::move(ready), context).run();
}

}  // namespace mlx::cmd
