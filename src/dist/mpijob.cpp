// See mpijob.h.
#include "dist/mpijob.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "base/manifest_text.h"
#include "dist/mpi_parameters.h"

namespace mlx::dist {
namespace {

constexpr std::int64_t kGrace = 120;  // seconds for a checkpoint

Json strings(std::initializer_list<std::string> words) {
  Json out = Json::array();
  for (const std::string& word : words) out.push_back(word);
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
  Json args =
      strings({"--np", std::to_string(job.ranks), "--bind-to", "none", "--wdir", kubernetes_literal(job.folder)});
  for (const auto& [name, value] : mpi_parameters()) {
    for (const std::string& word : {std::string("--mca"), name, value}) args.push_back(word);
  }
  for (const std::string& word : {std::string("-x"), fmt::format("MLX_THREADS={}", job.cpus)}) args.push_back(word);
  for (const std::string& word : job.command) args.push_back(kubernetes_literal(word));
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
  check_kubernetes_name("--name", job.name);
  if (!job.name_space.empty()) check_kubernetes_name("--namespace", job.name_space);
  if (job.image.empty()) fail(ErrorKind::kUsage, "--image: expected the name of an image");
  for (const std::string* text : {&job.image, &job.claim, &job.mount, &job.folder}) check_manifest_text(*text);
  for (const std::string& word : job.command) check_manifest_text(word);
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
  return yaml_text(manifest);
}

}  // namespace mlx::dist
