// `sumcast demo` and its workers as subcommands.
#pragma once

namespace CLI {
class App;
}

namespace sumcast::cli {

/// Adds `demo` and the hidden `demo-worker` to `app`. When one of them is chosen, it runs while
/// `app` parses, and leaves its exit status in `exit_code`, which must outlive that.
void add_demo_command(CLI::App& app, int& exit_code);

}  // namespace sumcast::cli
