// Messages between the memories of devices, one of each rank. What is requested goes on the device's peer stream, in
// order, and is not waited for. Two ranks agree on the order of the messages between them. For GPUs this is NCCL
// (kernels/device.h).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dist/communicator.h"
#include "kernels/device.h"

namespace mlx::dist {

class DeviceLinks {
 public:
  virtual ~DeviceLinks() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  // Requests messages, all at once. Throws kIo, which names this rank and the call.
  virtual void exchange(std::span<const kernels::PeerMessage> messages) = 0;
  // Throws kIo if a message that was requested cannot arrive. Does not wait.
  virtual void check() = 0;
  // Ends what is under way, and everything else: another rank is lost, or this one fails.
  virtual void give_up() = 0;
};

// All of the ranks together, each with a device of its own. `ranks` must outlive it. It gives up
// when it throws, and when it is destroyed by an exception. If it fails on some rank, it throws on all of them: on rank
// 0, naming that rank, kMissing if there is no library for it, else kIo; kInterrupted on the others.
std::unique_ptr<DeviceLinks> join_devices(Communicator& ranks, const kernels::Device& device);

// The number of this rank's device among `devices`, which its process may use (kernels::devices_of): the first that no
// rank before it on the same host has. On all ranks: throws kUsage on rank 0 and kInterrupted on the others if a host
// has fewer devices than ranks, or if they are of different models, whose bits may differ.
int choose_device(Communicator& ranks, const std::vector<std::string>& devices);
// Says that a host has too few of them.
[[noreturn]] void refuse_devices(const std::string& host, std::size_t devices, std::size_t ranks);

}  // namespace mlx::dist
