// The parts of the server's page (page.cpp) that are the same for all servers.
#pragma once

namespace mlx::serve {

extern const char* const kPageStyle;   // page_style.cpp
extern const char* const kPageScript;  // page_script.cpp

}  // namespace mlx::serve
