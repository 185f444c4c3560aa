// ssh HOST mlx rank --facts, and a store on each host that is filled as a remote is.
#include "cmd/hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "base/json.h"
#include "base/module.h"
#include "base/parallel.h"
#include "base/path.h"
#include "base/process_use.h"
#include "base/ssh.h"
#include "base/text.h"
#include "cmd/ask_host.h"
#include "cmd/backend.h"
#include "dist/mpi.h"
#include "nn/model_json.h"
#include "registry/repository.h"
#include "registry/settings/settings.h"
#include "store/remote/transfer.h"
#include "train/trainer.h"

namespace mlx::cmd {
namespace {

constexpr std::int64_t kLargestClockDifference = 60;  // seconds

// The folder of data for ranks, which other repositories share.
std::string cache_folder(const Environment& environment) {
  if (const auto named = environment.get("XDG_CACHE_HOME"); named && named->starts_with('/'))
    return join_path(*named, "mlx/data");
  return join_path(environment.get("HOME").value_or("/"), ".cache/mlx/data");
}

// All that ranks read. The bases of deltas are added when they are sent.
std::vector<store::ObjectRef> objects_of(const store::Store& store, const RankNeeds& needs) {
  std::vector<store::ObjectRef> out;
  const auto add = [&](store::ObjectKind kind, const Digest& id) { out.emplace_back(kind, id); };
  store.visit_reachable_manifest(needs.dataset, add);
  if (!needs.base) return out;
  for (const store::ShardRef& shard : store.shards(*needs.base)) add(store::ObjectKind::kShard, shard.id);
  for (const store::Entry& entry : store.entries(*needs.base))
    if (entry.path != nn::kWeightsFile) store.visit_reachable_blob(entry.content, add);
  add(store::ObjectKind::kManifest, *needs.base);
  return out;
}

std::unique_ptr<store::Remote> open_cache(const ReadyHost& host, bool create, Context& context) {
  store::RemoteOptions options;
  options.create = create;
  options.environment = context.environment();
  options.environment.variable = [&environment = context.environment(),
                                  program = host.facts.program](const std::string& name) {
    if (name == kSshVariable) return std::optional(ssh_program(environment));
    return name == kRemoteMlxVariable ? std::optional(program) : environment.get(name);
  };
  options.interruption = &context.progress().interruption();
  return store::open_remote(host.host.name + ":" + host.facts.cache, options, context.disk(), context.pool());
}

std::uint64_t missing_bytes(const ReadyHost& host, const std::vector<store::ObjectRef>& objects, Context& context) {
  const store::Store& store = context.repository().store();
  try {
    return store::stored_bytes(store, store::missing_objects(*open_cache(host, false, context), objects));
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kNotFound) throw;
    return store::stored_bytes(store, objects);  // there is no cache yet
  }
}

void refuse_encrypted(Context& context) {
  if (!context.repository().store().encrypted()) return;
  throw Error(ErrorKind::kRefused, "the repository is encrypted, and ranks on other hosts have no keys of it",
              "train on this machine: --ranks");
}

struct Asked {
  std::vector<ReadyHost> hosts;
  std::vector<std::vector<dist::Obstacle>> obstacles;  // of each
};

// By what it has said of itself.
std::vector<dist::Obstacle> obstacles_of(ReadyHost& host, const dist::HostFacts& own, const RankNeeds& needs,
                                         const std::vector<store::ObjectRef>& objects, Context& context) {
  dist::HostNeeds its{needs.portable, needs.memory * host.host.ranks};
  std::vector<dist::Obstacle> found = dist::obstacles(own, host.facts, its);
  if (!found.empty()) return found;
  if (const std::int64_t ahead = host.facts.time - own.time; std::abs(ahead) > kLargestClockDifference)
    context.progress().warn(fmt::format("{}: its clock differs by {} s", host.host.name, ahead));
  try {
    host.missing = missing_bytes(host, objects, context);
  } catch (const Error& error) {
    if (error.kind == ErrorKind::kInterrupted) throw;
    return {{error.message, error.hint}};
  }
  its.data = static_cast<std::int64_t>(host.missing);
  return dist::obstacles(own, host.facts, its);
}

std::vector<Answer> ask_at_once(const std::vector<dist::Host>& hosts, const dist::HostFacts& own, bool ship,
                                Context& context) {
  std::vector<Answer> answers(hosts.size());
  Shipper shipper;
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      if (hosts[i].here()) continue;
      threads.emplace_back(
          [&, i] { answers[i] = ask_host(hosts[i], own, context.environment(), ship ? &shipper : nullptr); });
    }
  }
  for (std::size_t i = 0; i < hosts.size(); ++i)
    if (answers[i].shipped > 0)
      context.say(fmt::format("{}: mlx sent, {}", hosts[i].name, format_bytes(answers[i].shipped)));
  return answers;
}

Asked ask_all(const std::vector<dist::Host>& hosts, const RankNeeds& needs, Context& context) {
  refuse_encrypted(context);
  const dist::HostFacts own = own_facts(context);
  const std::vector<Answer> answers = ask_at_once(hosts, own, needs.ship && !context.dry_run(), context);
  const std::vector<store::ObjectRef> objects = objects_of(context.repository().store(), needs);
  Asked out;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    std::vector<dist::Obstacle> found = answers[i].obstacles;
    ReadyHost& host = out.hosts.emplace_back(ReadyHost{hosts[i], hosts[i].here() ? own : answers[i].facts});
    if (hosts[i].here()) found = dist::obstacles(own, own, {needs.portable, needs.memory * hosts[i].ranks});
    host.lacks_mlx = needs.ship && context.dry_run() && answers[i].lacks_mlx;
    if (host.lacks_mlx) found.clear();
    if (!hosts[i].here() && !host.lacks_mlx && found.empty()) found = obstacles_of(host, own, needs, objects, context);
    out.obstacles.push_back(std::move(found));
  }
  return out;
}

// One obstacle is the error; of several each has a line before it.
void refuse_obstacles(const std::vector<dist::Host>& hosts, const std::vector<std::vector<dist::Obstacle>>& obstacles,
                      Context& context) {
  struct OfHost {
    const std::string& host;
    const dist::Obstacle& obstacle;
  };
  std::vector<OfHost> all;
  for (std::size_t i = 0; i < hosts.size(); ++i)
    for (const dist::Obstacle& each : obstacles[i]) all.push_back({hosts[i].name, each});
  if (all.empty()) return;
  const auto text = [](const OfHost& each) { return fmt::format("{}: {}", each.host, each.obstacle.text); };
  if (all.size() == 1) throw Error(ErrorKind::kMissing, text(all[0]) + "; nothing was started", all[0].obstacle.hint);
  for (const OfHost& each : all) context.say(fmt::format("{} ({})", text(each), each.obstacle.hint));
  const auto unable = std::ranges::count_if(obstacles, [](const auto& each) { return !each.empty(); });
  throw Error(ErrorKind::kMissing,
              fmt::format("{} of {} hosts cannot take part; nothing was started", unable, hosts.size()),
              "the lines above say what stands in the way");
}

// Gives suspects an obstacle, if the others have none and are enough.
void leave_out(Asked& asked, const RankShares& shares, const std::vector<std::string>& suspects) {
  std::int64_t others = 0;
  std::vector<std::size_t> suspected;
  for (std::size_t i = 0; i < asked.hosts.size(); ++i) {
    const dist::Host& host = asked.hosts[i].host;
    if (std::ranges::find(suspects, host.name) != suspects.end()) {
      suspected.push_back(i);
      continue;
    }
    if (!asked.obstacles[i].empty()) return;  // that was the one
    others += host.ranks;
  }
  if (shares.usable(others) < std::max<std::int64_t>(1, shares.least)) return;
  for (const std::size_t i : suspected)
    if (asked.obstacles[i].empty()) asked.obstacles[i].push_back({"the training failed soon after it was back", ""});
}

}  // namespace

dist::HostFacts own_facts(Context& context) {
  dist::HostFacts out;
  const kernels::Backend backend = chosen_backend(context, "cpu");
  const auto numerics = [&](bool portable) {
    return train::numerics_of(portable ? kernels::portable_backend(backend) : backend, portable);
  };
  out.version = MLX_VERSION;
  out.program = executable_path();
  out.sources = numerics(false).sources.hex();
  out.native = numerics_id(numerics(false)).hex(), out.portable = numerics_id(numerics(true)).hex();
  out.isa = kernels::hardware_of(backend);
  out.mpi = dist::why_no_mpi();
  out.cache = cache_folder(context.environment());
  out.cores = threads_here(context);
  out.memory = available_memory();
  out.disk = free_space(out.cache);
  out.time = static_cast<std::int64_t>(std::time(nullptr));
  // Of sshd: the caller's address and port, and those that it has reached.
  std::istringstream connection(context.environment().get("SSH_CONNECTION").value_or(""));
  std::string port;
  connection >> out.caller >> port >> out.address;
  return out;
}

int threads_here(Context& context) {
  const std::int64_t set = context.settings().integer("core.threads");
  return set > 0 ? static_cast<int>(set) : cores();
}

int threads_of(const ReadyHost& host) {
  return std::max(1, host.facts.cores / std::max(1, host.host.ranks));
}

std::vector<ReadyHost> ask_hosts(const std::vector<dist::Host>& hosts, const RankNeeds& needs, Context& context) {
  Asked asked = ask_all(hosts, needs, context);
  refuse_obstacles(hosts, asked.obstacles, context);
  return std::move(asked.hosts);
}

std::vector<ReadyHost> hosts_left(const std::vector<dist::Host>& hosts, const RankShares& shares,
                                  const std::vector<std::string>& suspects, const RankNeeds& needs, Context& context) {
  Asked asked = ask_all(hosts, needs, context);
  if (!suspects.empty()) leave_out(asked, shares, suspects);
  std::vector<ReadyHost> out;
  std::int64_t ranks = 0;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    if (!asked.obstacles[i].empty()) {
      context.progress().warn(fmt::format("{}: {}; going on without it", hosts[i].name, asked.obstacles[i][0].text));
      continue;
    }
    ranks += hosts[i].ranks;
    out.push_back(std::move(asked.hosts[i]));
  }
  const std::int64_t usable = shares.usable(ranks);
  for (; ranks > usable; --ranks)
    if (--out.back().host.ranks == 0) out.pop_back();
  if (ranks >= shares.least && ranks > 0) return out;
  throw Error(ErrorKind::kIo,
              fmt::format("{} are left, and --min-ranks wants {}", counted(static_cast<std::uint64_t>(ranks), "rank"),
                          shares.least),
              "the same command continues from the last checkpoint, on any number of ranks");
}

void send_data(const std::vector<ReadyHost>& hosts, const RankNeeds& needs, Context& context) {
  const store::Store& store = context.repository().store();
  const std::vector<store::ObjectRef> objects = objects_of(store, needs);
  for (const ReadyHost& host : hosts) {
    if (host.host.here()) continue;
    const std::unique_ptr<store::Remote> cache = open_cache(host, true, context);
    const std::uint64_t sent = store::send_objects(store, *cache, objects, context.progress());
    if (sent > 0) context.say(fmt::format("{}: {} of data sent", host.host.name, format_bytes(sent)));
  }
}

}  // namespace mlx::cmd
