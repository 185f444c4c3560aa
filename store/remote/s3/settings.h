// The place of an S3 remote and the credentials for it: from the URL s3://BUCKET/PREFIX, the environment and the
// profile files. Used by remote.cpp.
#pragma once

#include <string>
#include <vector>

#include "base/environment.h"
#include "store/remote/s3/sigv4.h"

namespace mlx::store::s3 {

struct Settings {
  std::string bucket, prefix;  // prefix without slashes at its ends; may be empty
  std::string scheme, host;    // "https", "127.0.0.1:9000"; host is without the bucket
  std::string base_path;       // of a custom endpoint, percent-encoded: "" or "/s3"
  bool path_style = false;     // the bucket stands in the path, not in the host's name
  std::string region;
  Credentials credentials;
  std::string ca_bundle;    // a file of certificates to trust instead of the system's; "" for those
  int attempts = 6;         // of one request, before the server counts as not answering
  long stall_seconds = 30;  // a connection on which nothing moves is given up after this
};

// kUsage if the URL, a profile or a variable is wrong or no credentials are found; kRefused for plain http to
// another machine. Reads the profile files in the home folder, and runs their credential_process if one is named.
Settings resolve_settings(const std::string& url, const Environment& environment);

// Splits a command line into words as a shell does: quotes and backslashes count, nothing is expanded. kUsage if a
// quote is left open.
std::vector<std::string> split_words(const std::string& line);

}  // namespace mlx::store::s3
