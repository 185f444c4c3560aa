// The number of calls of operator new in this test executable.
#pragma once

#include <cstdint>

std::int64_t allocations();
