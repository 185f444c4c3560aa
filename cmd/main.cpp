// The executable; the program itself is a function of the library mlx_cmd, so that tests can link it.
#include "cmd/cli/program.h"

int main(int argc, char** argv) {
  return mlx::cmd::run_program({argv + 1, argv + argc});
}
