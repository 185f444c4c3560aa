// See mpijob.h. The manifest is built as JSON and written as YAML in block style, with every string in double quotes,
// as JSON writes it: YAML 1.2 reads the same.
#include "dist/mpijob.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/bytes.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "dist/mpi_parameters.h"

namespace mlx::dist {
namespace {

constexpr std::int64_t kGrace = 120;  // seconds for a checkpoint

void write_yaml(const Json& value, const std::string& indent, std::string& out) {
  if (!value.is_structured() || value.empty()) {
    out += " " + value.dump(-1, ' ', true) + "\n";  // escapes are the same everywhere
    return;
  }
  if (!out.empty()) out += "\n";
  if (value.is_array()) {
    for (const Json& item : value) {
      out += indent + "-";
      // The first key of a mapping stands beside the dash.
      std::string inner;
      write_yaml(item, indent + "  ", inner);
      out += item.is_structured() && !item.empty() ? " " + inner.substr(indent.size() + 2) : inner;
    }
    return;
  }
  for (const auto& [key, item] : value.items()) {
    out += indent + key + ":";
    write_yaml(item, indent + "  ", out);
  }
}

// A label of DNS that starts with a letter, as names of services do, and leaves room for the suffixes of pods.
void check_name(const char* what, const std::string& name) {
  const auto letter = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto plain = [&](char c) { return letter(c) || (c >= '0' && c <= '9'); };
  const bool good = !name.empty() && name.size() <= 50 && letter(name.front()) && plain(name.back()) &&
                    std::ranges::all_of(name, [&](char c) { return plain(c) || c == '-'; });
  if (good) return;
  throw Error(ErrorKind::kUsage, fmt::format("{} '{}': Kubernetes does not take this name", what, printable(name)),
              "at most 50 of a-z, 0-9 and -, a letter first, and no - at the end");
}

void check_text(const std::string& text) {
  if (text.find('\0') == text.npos && is_utf8(text)) return;
  fail(ErrorKind::kUsage, "'{}': a manifest holds only UTF-8", printable(text));
}

Json strings(std::initializer_list<std::string> words) {
  Json out = Json::array();
  for (const std::string& word : words) out.push_back(word);
  return out;
}

// Kubernetes puts variables in place of $(NAME), and a dollar in place of two.
std::string literal(const std::string& word) {
  std::string out;
  for (const char c : word) out += c == '$' ? std::string("$$") : std::string(1, c);
  return out;
}

// Limits that are also what is asked for. A tenth of memory is for what the kernel and MPI need besides.
Json resources(std::int64_t cpus, std::int64_t memory) {
  Json limits = {{"cpu", std::to_string(cpus)}};
  if (memory > 0) limits["memory"] = std::to_string(memory + memory / 10);
  return {{"limits", limits}};
}

Json pod(const MpiJob& job, Json container) {
  Json spec = Json::object();
  if (!job.claim.empty()) {
    container["volumeMounts"] = Json::array({{{"name", "repository"}, {"mountPath", job.mount}}});
    spec["volumes"] = Json::array({{{"name", "repository"}, {"persistentVolumeClaim", {{"claimName", job.claim}}}}});
  }
  spec["terminationGracePeriodSeconds"] = kGrace;
  spec["containers"] = Json::array({std::move(container)});
  return {{"spec", std::move(spec)}};
}

Json launcher(const MpiJob& job) {
  Json args = strings({"--np", std::to_string(job.ranks), "--bind-to", "none", "--wdir", literal(job.folder)});
  for (const auto& [name, value] : mpi_parameters()) {
    for (const std::string& word : {std::string("--mca"), name, value}) args.push_back(word);
  }
  for (const std::string& word : {std::string("-x"), fmt::format("MLX_THREADS={}", job.cpus)}) args.push_back(word);
  for (const std::string& word : job.command) args.push_back(literal(word));
  Json environment = Json::array();  // mpirun asks twice where the image's user is root
  for (const char* name : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"})
    environment.push_back({{"name", name}, {"value", "1"}});
  // mpirun is process 1, which passes USR1 on; the container ends with it.
  const Json stop = strings({"/bin/sh", "-c", "kill -USR1 1; while kill -0 1; do sleep 1; done"});
  return pod(job, {{"name", "launcher"},
                   {"image", job.image},
                   {"command", strings({"mpirun"})},
                   {"args", std::move(args)},
                   {"env", std::move(environment)},
                   {"lifecycle", {{"preStop", {{"exec", {{"command", stop}}}}}}},
                   {"resources", resources(1, 0)}});
}

// Without a command: the operator starts the image's sshd.
Json worker(const MpiJob& job) {
  return pod(job, {{"name", "worker"},
                   {"image", job.image},
                   {"resources", resources(job.cpus * job.slots, job.memory * job.slots)}});
}

}  // namespace

std::string mpijob_manifest(const MpiJob& job) {
  check_name("--name", job.name);
  if (!job.name_space.empty()) check_name("--namespace", job.name_space);
  if (job.image.empty()) fail(ErrorKind::kUsage, "--image: expected the name of an image");
  for (const std::string* text : {&job.image, &job.claim, &job.mount, &job.folder}) check_text(*text);
  for (const std::string& word : job.command) check_text(word);
  if (job.ranks % job.slots != 0)
    fail(ErrorKind::kUsage, "--slots {}: {} ranks do not fill pods of so many", job.slots, job.ranks);
  Json metadata = {{"name", job.name}};
  if (!job.name_space.empty()) metadata["namespace"] = job.name_space;
  // A launcher that failed or was removed is started again, and continues from the last checkpoint.
  const Json manifest = {
      {"apiVersion", "kubeflow.org/v2beta1"},
      {"kind", "MPIJob"},
      {"metadata", metadata},
      {"spec",
       {{"slotsPerWorker", job.slots},
        {"mpiImplementation", "OpenMPI"},
        {"launcherCreationPolicy", "WaitForWorkersReady"},
        {"runPolicy", {{"cleanPodPolicy", "Running"}, {"backoffLimit", 6}}},
        {"mpiReplicaSpecs",
         {{"Launcher", {{"replicas", 1}, {"restartPolicy", "OnFailure"}, {"template", launcher(job)}}},
          {"Worker", {{"replicas", job.ranks / job.slots}, {"template", worker(job)}}}}}}}};
  std::string out;
  write_yaml(manifest, "", out);
  return out;
}

}  // namespace mlx::dist
