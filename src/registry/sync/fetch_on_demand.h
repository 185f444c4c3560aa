// Content on demand, for lazy clones (`mlx clone --filter`, setting fetch.filter): content that is read and not here is
// fetched from the remote.
#pragma once

#include "base/progress.h"
#include "registry/repository.h"

namespace mlx::registry {

bool is_lazy(Repository& repository);
// Fetches what the store lacks of a version, or of the files in `wanted`, in one go. Does nothing unless the clone is
// lazy. Throws kNotFound if the remote lacks it, too.
void fetch_on_demand(Repository& repository, const Digest& manifest, Progress& progress);
void fetch_on_demand(Repository& repository, const std::vector<store::Entry>& wanted, Progress& progress);

// Fetches a version's file list from the remote, whether the clone is lazy or not. False if there is no remote, if it
// cannot be reached, or if it lacks the list.
bool fetch_files_of(Repository& repository, const Digest& manifest);

// The same for its content that is not here. Does nothing in a lazy clone, which fetches on demand. False if some of it
// could not be fetched.
bool fetch_content_of(Repository& repository, const Digest& manifest, Progress& progress);

// Makes sure that a version's file list can be read; a lazy clone fetches it. `name` is the version's name for errors.
// Throws kRefused if the list was erased; kNotFound, with the command that fetches it, if it is not here.
void need_files_of(Repository& repository, const std::string& name, const Digest& manifest);

// The callback for Store::on_missing. False if the clone is not lazy or the remote lacks an object.
bool fetch_missing(Repository& repository, const std::vector<store::Store::Missing>& objects);

}  // namespace mlx::registry
