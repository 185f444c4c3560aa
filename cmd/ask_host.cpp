// ssh HOST mlx rank --facts
#include "cmd/ask_host.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/ssh.h"
#include "base/subprocess.h"
#include "base/text.h"

namespace mlx::cmd {
namespace {

constexpr int kUsage = 2, kNotFound = 127;  // exit codes of mlx and of a shell

dist::Obstacle failure_of(const SshTarget& target, const ProcessResult& ssh) {
  const std::string said = last_line_of(ssh.err);
  if (ssh.exit_code == kSshFailed)
    return {said.empty() ? "ssh cannot reach it" : said,
            ssh_hint(target, ssh.err).value_or("try: ssh " + target.login() + " true")};
  const std::string text = said.empty() ? fmt::format("`mlx rank` ended there with {}", ssh.exit_code) : said;
  if (ssh.exit_code == kNotFound)
    return {text, "--ship sends this mlx there; or install it, or name it with MLX_REMOTE_MLX=PATH"};
  if (ssh.exit_code == kUsage)
    return {text, "--ship sends this mlx there; or upgrade it, or name another one with MLX_REMOTE_MLX=PATH"};
  return {text, fmt::format("try: ssh {} mlx rank --facts", target.login())};
}

struct Line {
  std::string ssh;
  SshTarget target;
  ProcessResult run(const std::string& command, const std::string& input = {}) const {
    return run_process(ssh_command(target, ssh, command), input);
  }
};

std::string facts_command(const std::string& mlx) {
  return remote_word(mlx) + " rank --facts";
}

// What ssh has brought of its facts.
Answer answer_of(const SshTarget& target, const ProcessResult& ssh) {
  Answer out;
  if (ssh.exit_code != 0) {
    out.obstacles.push_back(failure_of(target, ssh));
    out.lacks_mlx = ssh.exit_code == kNotFound || ssh.exit_code == kUsage;
    return out;
  }
  try {
    out.facts = dist::facts_from_json(parse_json(ssh.out, target.host), target.host);
  } catch (const Error&) {
    out.obstacles.push_back({"it does not answer as mlx does: " + printable(ssh.out.substr(0, 80)),
                             "a login there must print nothing: look at its ~/.bashrc"});
  }
  return out;
}

Answer ask(const Line& line, const std::string& mlx, const dist::HostFacts& own) {
  Answer out = answer_of(line.target, line.run(facts_command(mlx)));
  if (out.obstacles.empty()) out.lacks_mlx = out.facts.version != own.version || out.facts.sources != own.sources;
  return out;
}

// The path of the shipped program there; says in `answer` what went wrong.
std::string ship(const Line& line, const dist::Shipment& shipment, Answer& answer) {
  const auto path_in = [](const ProcessResult& ssh) { return std::string(trimmed(ssh.out)); };
  ProcessResult ssh = line.run(dist::find_command(shipment.id));
  if (ssh.exit_code == 0) return path_in(ssh);
  ssh = line.run(dist::unpack_command(shipment.id), shipment.archive);
  if (ssh.exit_code == 0) {
    answer.shipped = shipment.archive.size();
    return path_in(ssh);
  }
  answer.obstacles = {failure_of(line.target, ssh)};
  return "";
}

}  // namespace

std::string ssh_program(const Environment& environment) {
  return environment.get(kSshVariable).value_or(kSilentSsh);
}

const dist::Shipment& Shipper::shipment() {
  std::call_once(packed_, [this] { shipment_ = dist::pack_program(); });
  return shipment_;
}

Answer ask_host(const dist::Host& host, const dist::HostFacts& own, const Environment& environment, Shipper* shipper) {
  Line line{ssh_program(environment), {}};
  line.target.host = host.name;
  Answer out = ask(line, environment.get(kRemoteMlxVariable).value_or("mlx"), own);
  if (!shipper || !out.lacks_mlx) return out;
  const std::string program = ship(line, shipper->shipment(), out);
  if (program.empty()) return out;
  const std::size_t shipped = out.shipped;
  out = ask(line, program, own);
  out.shipped = shipped;
  return out;
}

Answer ask_host_again(const dist::Host& host, const std::string& program, const Environment& environment,
                      const Interruption& interruption) {
  SshTarget target;
  target.host = host.name;
  Conversation ssh(ssh_command(target, ssh_program(environment), facts_command(program)), interruption);
  ssh.close_input();
  ProcessResult said;
  std::array<char, 4096> bytes{};
  while (const std::size_t count = ssh.read(bytes.data(), bytes.size())) said.out.append(bytes.data(), count);
  said.exit_code = ssh.wait();
  said.err = ssh.errors();
  return answer_of(target, said);
}

}  // namespace mlx::cmd
