// Manifests that Kubernetes and Docker Compose read: JSON values as YAML, and which names and words they take.
#pragma once

#include <string>

#include "base/json.h"

namespace mlx {

// In block style, with every string in double quotes, as JSON writes it: YAML 1.2 reads the same.
std::string yaml_text(const Json& manifest);

// Throws kUsage unless `name` is a label of DNS that starts with a letter, as names of services do, and leaves room for
// the suffixes of pods. `option`: where it was given.
void check_kubernetes_name(const char* option, const std::string& name);
// Throws kUsage unless it is UTF-8 without NUL.
void check_manifest_text(const std::string& text);
// A word of a container's arguments: Kubernetes puts variables in place of $(NAME), and a dollar in place of two.
std::string kubernetes_literal(const std::string& word);

}  // namespace mlx
