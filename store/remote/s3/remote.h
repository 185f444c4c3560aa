// A remote in an S3 bucket (mlx-format-remote(5), S3 LAYOUT): a row of the table in store/remote/remote.cpp.
#pragma once

#include <memory>
#include <string>

#include "store/remote/remote.h"

namespace mlx::store {

// `url` is s3://BUCKET or s3://BUCKET/PREFIX; credentials, region and endpoint come from the environment and the
// profile files. kNotFound if there is no remote; with `create` one is made in a bucket that is there.
std::unique_ptr<Remote> open_s3_remote(const std::string& url, const RemoteOptions& options, Disk& disk, Pool& pool);

}  // namespace mlx::store
