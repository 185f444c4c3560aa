// mlx report: one HTML file about a model.
#include <memory>

#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/path.h"
#include "cmd/cli/cli.h"
#include "report/report.h"

namespace mlx::cmd {
namespace {

struct ReportOptions {
  std::string model, out = "report.html";
};

int run_report(const ReportOptions& options, Context& context) {
  registry::Repository& repository = context.repository();
  if (options.out == "-" && context.wants_json()) {
    throw Error(ErrorKind::kUsage, "--out - and --json both write to stdout", "name a file with --out");
  }
  const registry::Version version = report::report_subject(repository, options.model);
  const std::string html = report::html_report(repository, version.name());
  if (options.out == "-") {
    context.out(html);
    return 0;
  }
  const std::string path = join_path(context.folder(), options.out);
  if (is_folder(path))
    throw Error(ErrorKind::kUsage, "--out " + options.out + ": is a folder", "name a file, such as report.html");
  write_file_atomically(path, html);
  if (context.wants_json()) {
    context.json({{"schema", "mlx.report/1"},
                  {"path", path},
                  {"bytes", html.size()},
                  {"model", version.name()},
                  {"digest", version.digest.text()}});
  }
  context.line("report on " + context.bold(version.name()) + ": " + options.out + "  " +
               context.dim(format_bytes(html.size())));
  return 0;
}

}  // namespace

Command add_report() {
  auto options = std::make_shared<ReportOptions>();
  Command command;
  command.name = "report";
  command.summary = "Write one self-contained HTML page about a model";
  command.group = "meta";
  command.options = {
      optional_argument("MODEL", options->model, "The model's reference (default: the newest model)",
                        Complete::kReference),
      option("-o,--out", "FILE", options->out, "Where to write it; - for stdout (default: report.html)",
             Complete::kFile),
  };
  command.examples = {"mlx report --out report.html", "mlx report clf@production --out - > clf.html"};
  command.run = [options](Context& context) { return run_report(*options, context); };
  return command;
}

}  // namespace mlx::cmd
