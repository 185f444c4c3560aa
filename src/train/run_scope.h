// What every work command does around its run: the state of the code as a record, and an end whatever happens.
#pragma once

#include <new>
#include <string>
#include <utility>

#include "base/error.h"
#include "registry/versions/runs.h"

namespace mlx::train {

// Canonical JSON: git head, branch, dirty, and the digest of the dirty diff, which is stored as a blob. "{}" outside
// git.
std::string code_state(registry::Repository& repository);

// kNotFound where the repository's folder was removed meanwhile.
void require_repository(const registry::Repository& repository);

// Ends the run as failed or interrupted; what cannot be recorded (a full disk) is left to the original error.
void end_badly(registry::Repository& repository, const std::string& run, const Error& error) noexcept;

// Calls `work`; an Error, or too little memory, ends the run before it goes on.
template <typename Work>
auto in_run(registry::Repository& repository, const std::string& run, Work&& work) {
  try {
    return std::forward<Work>(work)();
  } catch (const Error& error) {
    end_badly(repository, run, error);
    throw;
  } catch (const std::bad_alloc&) {
    end_badly(repository, run, Error(ErrorKind::kIo, "out of memory"));
    throw;
  }
}

}  // namespace mlx::train
