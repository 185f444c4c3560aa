// Devices of several ranks: who has which, and NCCL between them.
#include "dist/device_links.h"

#include <fmt/format.h>

#include <exception>
#include <set>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "dist/collectives.h"

namespace mlx::dist {
namespace {

constexpr const char* kNoNccl =
    "install NCCL (the package libnccl2), or name its folder in LD_LIBRARY_PATH, on every host; or train on one GPU, "
    "or "
    "with --device cpu";
constexpr const char* kNoMessages = "NCCL_DEBUG=INFO makes NCCL say more; NCCL_SOCKET_IFNAME names the network to use";

// What ranks say of themselves. Throws the first complaint: on rank 0 of this kind, kInterrupted on the others.
void agree(Communicator& ranks, const std::string& complaint, ErrorKind kind, const char* hint) {
  const std::string own = complaint.empty() ? "" : fmt::format("{}: {}", ranks.name(), complaint);
  for (const Bytes& said : all_gather(ranks, as_bytes(own)))
    if (!said.empty())
      throw Error(ranks.rank() == 0 ? kind : ErrorKind::kInterrupted, std::string(as_text(said)), hint);
}

std::string complaint_of(const char* problem) {
  return problem ? problem : "";
}

class NcclLinks final : public DeviceLinks {
 public:
  NcclLinks(Communicator& ranks, const kernels::Device& device)
      : ranks_(ranks), device_(device), calls_(*device.calls->peers), exceptions_(std::uncaught_exceptions()) {
    agree(ranks, complaint_of(calls_.missing()), ErrorKind::kMissing, kNoNccl);
    Bytes id(kernels::kPeerId);
    agree(ranks, ranks.rank() == 0 ? complaint_of(calls_.make_id(id.data())) : "", ErrorKind::kIo, kNoMessages);
    broadcast(ranks, 0, id);
    const char* const problem = calls_.join(device, id.data(), ranks.rank(), ranks.ranks(), &peers_);
    try {
      agree(ranks, complaint_of(problem), ErrorKind::kIo, kNoMessages);
    } catch (const Error&) {
      give_up();
      throw;
    }
  }
  NcclLinks(const NcclLinks&) = delete;
  NcclLinks& operator=(const NcclLinks&) = delete;
  ~NcclLinks() override {
    if (std::uncaught_exceptions() > exceptions_) give_up();
    if (peers_) calls_.leave(device_, peers_);
  }

  int rank() const override { return ranks_.rank(); }
  int ranks() const override { return ranks_.ranks(); }
  void exchange(std::span<const kernels::PeerMessage> messages) override {
    refuse(calls_.exchange(device_, peers_, messages.data(), static_cast<int>(messages.size())));
  }
  void check() override { refuse(calls_.problem(device_, peers_)); }
  void give_up() override {
    if (void* const peers = std::exchange(peers_, nullptr)) calls_.abort(device_, peers);
  }

 private:
  // Others would wait for what this rank does not send any more, and it for them.
  void refuse(const char* problem) {
    if (!problem) return;
    const std::string what = problem;
    give_up();
    throw Error(ErrorKind::kIo, fmt::format("{}: NCCL: {}", ranks_.name(), what), kNoMessages);
  }

  Communicator& ranks_;
  const kernels::Device& device_;
  const kernels::PeerCalls& calls_;
  int exceptions_;
  void* peers_ = nullptr;  // null once it has given up
};

struct RankDevices {
  std::string name, host;
  std::vector<std::string> devices;
};

std::vector<RankDevices> devices_of_all(Communicator& ranks, const std::vector<std::string>& own) {
  std::string said = ranks.name();
  for (const std::string& device : own) said += "\n" + device;
  std::vector<RankDevices> out;
  for (const Bytes& each : all_gather(ranks, as_bytes(said))) {
    std::istringstream lines{std::string(as_text(each))};
    RankDevices& of = out.emplace_back();
    std::getline(lines, of.name);
    const std::size_t on = of.name.find(" on ");
    of.host = on == std::string::npos ? "this machine" : of.name.substr(on + 4);
    for (std::string line; std::getline(lines, line);) of.devices.push_back(line);
  }
  return out;
}

std::string model_of(const std::string& device) {
  return device.substr(device.find(' ') + 1);
}

// By rank, the number of its device. Throws kUsage.
std::vector<std::size_t> assigned(const std::vector<RankDevices>& ranks) {
  std::set<std::pair<std::string, std::string>> taken;  // host and device
  std::vector<std::size_t> out;
  for (const RankDevices& rank : ranks) {
    std::size_t at = 0;
    while (at < rank.devices.size() && !taken.emplace(rank.host, rank.devices[at]).second) ++at;
    if (at == rank.devices.size()) {
      std::set<std::string> there;
      std::size_t count = 0;
      for (const RankDevices& other : ranks) {
        if (other.host != rank.host) continue;
        ++count;
        there.insert(other.devices.begin(), other.devices.end());
      }
      refuse_devices(rank.host, there.size(), count);
    }
    out.push_back(at);
    const std::string first = model_of(ranks[0].devices[out[0]]), own = model_of(rank.devices[at]);
    if (first != own) {
      throw Error(ErrorKind::kUsage,
                  fmt::format("{} has '{}', and {} '{}': they would not make the same bits", ranks[0].name,
                              printable(first), rank.name, printable(own)),
                  "train on GPUs of one model; CUDA_VISIBLE_DEVICES chooses among those of a host");
    }
  }
  return out;
}

}  // namespace

void refuse_devices(const std::string& host, std::size_t devices, std::size_t ranks) {
  throw Error(ErrorKind::kUsage,
              fmt::format("{} has {} for {}, and each needs one of its own", printable(host), counted(devices, "GPU"),
                          counted(ranks, "rank")),
              "give it no more ranks than GPUs: --ranks, or --hosts HOST:RANKS; CUDA_VISIBLE_DEVICES chooses GPUs");
}

std::unique_ptr<DeviceLinks> join_devices(Communicator& ranks, const kernels::Device& device) {
  return std::make_unique<NcclLinks>(ranks, device);
}

int choose_device(Communicator& ranks, const std::vector<std::string>& devices) {
  const std::vector<RankDevices> all = devices_of_all(ranks, devices);
  try {
    return static_cast<int>(assigned(all)[static_cast<std::size_t>(ranks.rank())]);
  } catch (Error& error) {
    if (ranks.rank() != 0) error.kind = ErrorKind::kInterrupted;
    throw;
  }
}

}  // namespace mlx::dist
