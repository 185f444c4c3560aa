// POST /v2/models/NAME/generate and generate_stream. Source: the generate extension of KServe's Open Inference Protocol
// v2 and of Triton, WHATWG server-sent events.
#pragma once

#include "serve/protocols/protocol.h"

namespace mlx::serve {

void generate(const Asked& asked, bool stream);

}  // namespace mlx::serve
