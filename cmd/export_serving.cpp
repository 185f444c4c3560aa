// See export_serving.h. The command line of the server is read first, so that what it would refuse is refused here.
#include "cmd/export_serving.h"

#include <fmt/format.h>

#include <memory>

#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/module.h"
#include "base/path.h"
#include "base/text.h"
#include "cmd/cli/invocation.h"
#include "cmd/data_memory.h"
#include "registry/repository.h"
#include "serve/deployment.h"

namespace mlx::cmd {

Command add_serve();  // serve.cpp

namespace {

struct ServingOptions {
  serve::Deployment deployment;
  std::string memory, output;
  bool socket = false;
};

void check_number(const char* option, std::int64_t number, std::int64_t least, std::int64_t most) {
  if (number < least || number > most) fail(ErrorKind::kUsage, "{} {}: expected {} to {}", option, number, least, most);
}

// Throws what `mlx serve` would say of its command line.
void check_arguments(const std::vector<std::string>& arguments) {
  Common common;
  parse_options(add_serve(), "mlx serve", arguments, common);
}

serve::Deployment checked(const ServingOptions& options, Context& context) {
  constexpr std::int64_t kMostCpus = 4096, kMostSeconds = 86400;
  serve::Deployment out = options.deployment;
  check_number("--cpus", out.cpus, 0, kMostCpus);
  check_number("--grace", out.grace, 1, kMostSeconds);
  check_arguments(out.arguments);
  out.memory = allowed_memory(options.memory);
  out.folder = context.has_repository() ? context.repository().root() : context.folder();
  return out;
}

using Text = std::string (*)(const serve::Deployment&);

int write(const ServingOptions& options, const char* to, Text text_of, Context& context) {
  const std::string text = text_of(checked(options, context));
  if (options.output.empty() || options.output == "-") {
    if (!context.wants_json()) context.out(text);
  } else {
    write_file_atomically(join_path(context.folder(), options.output), text);
    context.line(context.bold(printable(options.output)));
  }
  if (context.wants_json())
    context.json({{"schema", "mlx.export/1"}, {"to", to}, {"file", options.output}, {"text", text}});
  return 0;
}

// What all have.
Command command_of(const std::shared_ptr<ServingOptions>& options, const char* name, const char* summary) {
  serve::Deployment& of = options->deployment;
  of.name = "mlx";
  Command command;
  command.name = name;
  command.summary = summary;
  command.options = {
      arguments("ARGUMENT", of.arguments, "The arguments of mlx serve: models, and behind -- also options"),
      option("--name", "NAME", of.name, "The name of the service (default: mlx)"),
      integer("--cpus", "N", of.cpus, "The cores that it may use (default: all)"),
      option("--memory", "SIZE", options->memory, "The memory that it may use, such as 4GiB (default: all)"),
      integer("--grace", "SECONDS", of.grace, "How long it may take to stop (default: 30)"),
      option("-o,--out", "FILE", options->output, "Write it to a file instead of stdout", Complete::kFile),
  };
  return command;
}

// What those in containers have.
void add_container(Command& command, ServingOptions& options) {
  serve::Deployment& of = options.deployment;
  of.mount = "/repository";
  Option image = option("--image", "IMAGE", of.image, "The container image, with mlx");
  image.required = true;
  command.options.push_back(std::move(image));
  command.options.push_back(option("--program", "FILE", of.program, "mlx there (default: mlx)"));
  command.options.push_back(
      option("--mount", "DIR", of.mount, "Where the repository is in the container (default: /repository)"));
}

}  // namespace

Command export_systemd() {
  auto options = std::make_shared<ServingOptions>();
  options->deployment.program = "";
  Command command = command_of(options, "systemd", "Write a unit of systemd that serves models");
  command.options.push_back(
      flag("--socket", options->socket, "Write the unit of its socket, by which systemd listens for it"));
  command.options.push_back(option("--user", "NAME", options->deployment.user, "The user that it runs as"));
  command.options.push_back(
      option("--program", "FILE", options->deployment.program, "mlx there (default: this one)", Complete::kFile));
  command.examples = {"mlx export systemd clf@production --user mlx -o mlx.service",
                      "mlx export systemd --socket -o mlx.socket -- clf@production --listen 127.0.0.1:8080"};
  command.run = [options](Context& context) {
    if (options->deployment.program.empty()) options->deployment.program = executable_path();
    return write(*options, "systemd", options->socket ? serve::systemd_socket : serve::systemd_service, context);
  };
  return command;
}

Command export_compose() {
  auto options = std::make_shared<ServingOptions>();
  Command command = command_of(options, "compose", "Write a file of Docker Compose that serves models");
  add_container(command, *options);
  command.examples = {
      "mlx export compose --image example/mlx:1 -- clf@production --listen 0.0.0.0:8080 --insecure >compose.yaml"};
  command.run = [options](Context& context) { return write(*options, "compose", serve::compose_file, context); };
  return command;
}

Command export_kserve() {
  auto options = std::make_shared<ServingOptions>();
  Command command = command_of(options, "kserve", "Write a manifest of KServe that serves models");
  add_container(command, *options);
  command.options.push_back(
      option("--claim", "NAME", options->deployment.claim, "The persistent volume claim that holds the repository"));
  command.options.push_back(
      option("--namespace", "NAME", options->deployment.name_space, "The namespace (default: that of who applies it)"));
  command.examples = {
      "mlx export kserve --image example/mlx:1 --claim clf -- clf@production --listen 0.0.0.0:8080 --insecure | "
      "kubectl "
      "apply -f -"};
  command.run = [options](Context& context) { return write(*options, "kserve", serve::kserve_manifest, context); };
  return command;
}

}  // namespace mlx::cmd
