#include "cli/manual_command.h"

#include <cstdio>

#include "manual/manual_page.h"

namespace sumcast::cli {
namespace {

manual::PageFacts facts() {
  return {1, SUMCAST_VERSION,
          "Sumcast adds gradients for distributed training on ordinary Ethernet: each worker sends "
          "its gradient once, an aggregator on the path (sumcastd) adds the contributions as they "
          "stream through and returns one sum to everybody. This program shows, measures, plans "
          "and watches that, and trains sparse models with it.\n\n"
          "Programs use the library, PyTorch's backend sumcast, or ps-lite's interface.",
          "0: it worked.\n\n"
          "1: it was tried and did not work: nobody answered, a rank died, a sum was wrong, a "
          "promise was broken.\n\n"
          "2: words that make no sense, or a file that cannot be read or written, usually "
          "before anything was begun.\n\n"
          "128 and a signal's number: interrupted by that signal; what was built was removed.",
          "sumcastd(8), mpirun(1), srun(1). The documents lie in docs/ of the source tree, "
          "README.md first."};
}

}  // namespace

void add_manual_commands(CLI::App& app, int& exit_code) {
  CLI::App* const page = app.add_subcommand("manual-page", "Write sumcast(1)")->group("");
  page->callback([&app, &exit_code] {
    std::fputs(manual::manual_page(app, facts()).c_str(), stdout);
    exit_code = 0;
  });
  CLI::App* const completion =
      app.add_subcommand("bash-completion", "Write completion for bash")->group("");
  completion->callback([&app, &exit_code] {
    std::fputs(manual::bash_completion(app).c_str(), stdout);
    exit_code = 0;
  });
}

}  // namespace sumcast::cli
