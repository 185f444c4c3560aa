// Encryption between ranks (mlx train --encrypt): a communicator over another one, the carrier, which sees ciphertext
// only. Every message is cut into frames of AES-256-GCM. Each pair of ranks has a key in each direction, derived from
// the key of the launch; the nonce is the tag and the number of the frame among those of that direction and tag. So a
// frame that was changed, repeated, left out, moved or brought from elsewhere does not open, and the receiver throws
// kCorrupt, which names both ranks and says what is wrong. mlx-format-sealed(5) has the bytes.
//
// Frames of a message are sealed and opened while others are under way, and few are held at a time: buffers take up to
// 8 MiB, and half a MiB for each message under way.
#pragma once

#include <cstdint>
#include <memory>

#include "dist/communicator.h"
#include "dist/launch_key.h"

namespace mlx::dist {

// The most that these buffers take while a rank sends and receives so many messages.
std::int64_t sealed_memory(std::int64_t messages);

std::unique_ptr<Communicator> sealed_ranks(std::unique_ptr<Communicator> carrier, const LaunchKey& key);

}  // namespace mlx::dist
