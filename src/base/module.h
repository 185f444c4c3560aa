// Modules: shared objects beside the executable (lib/mlx/NAME). They are opened only when a command needs the library
// that they link. Used for oneDNN, CUDA, libcurl, Open MPI and the libraries for pictures.
#pragma once

#include <string>

namespace mlx {

// Once opened a module is never closed: addresses inside it may be kept.
struct Module {
  void* handle = nullptr;
  bool found = false;   // there is such a file
  std::string problem;  // why it cannot be used; empty when it can

  // Address of an exported function; nullptr (and `problem` set) if there is none.
  void* symbol(const char* name);
};

// This program's file; "" if the system does not tell.
std::string executable_path();
// The folder of this program; "" if the system does not tell.
std::string executable_folder();

// Looks in lib/mlx beside the executable (a build folder), then in ../lib/mlx (an installation).
Module open_module(const std::string& name);

// The functions of module NAME (lib/mlx/NAME.so) as one structure that begins with `int version`: what its
// NAME_module() returns. Null, with the problem, if it cannot be used.
template <typename Functions>
const Functions* functions_of(const std::string& name, int version, std::string& problem) {
  Module module = open_module(name + ".so");
  const auto get = reinterpret_cast<const Functions* (*)()>(module.symbol((name + "_module").c_str()));
  problem = module.problem;
  if (get && get()->version != version) problem = "lib/mlx/" + name + ".so is of another version of mlx";
  return problem.empty() ? get() : nullptr;
}

}  // namespace mlx
