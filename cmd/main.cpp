// The executable; the program itself is a function of the library mlx_cmd.

int main(int argc, char** argv) {
  return mlx::cmd::run_program({argv + 1, argv + argc});
}
