// How often this test executable has called operator new.
#pragma once

#include <cstdint>

std::int64_t allocations();
