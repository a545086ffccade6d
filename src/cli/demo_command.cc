#include "cli/demo_command.h"

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/demo_method.h"
#include "cli/demo_options.h"
#include "cli/demo_run.h"
#include "cli/demo_worker.h"

namespace sumcast::cli {

void add_demo_command(CLI::App& app, int& exit_code) {
  // Shared with the callback, which CLI11 keeps and calls later.
  const auto options = std::make_shared<DemoOptions>();
  CLI::App* demo = app.add_subcommand(
      "demo", "Train one model with each way of adding gradients, and compare them");
  demo->footer(
      "Examples:\n"
      "  sumcast demo\n"
      "  sumcast demo --workers 8 --rate 300mbit --method in-network,ring --report eight.html\n"
      "  sumcast demo --images 10000 --epochs 1 --json");
  demo->add_option("--workers", options->workers, "Worker processes")->capture_default_str();
  demo->add_option("--epochs", options->epochs, "Passes over the training images")
      ->capture_default_str();
  demo->add_option("--batch", options->batch, "Images per worker and step")->capture_default_str();
  demo->add_option("--rate", options->rate, "Bandwidth of each worker's link, as 300mbit or 1gbit")
      ->capture_default_str();
  demo->add_option("--images", options->images, "Train on the first so many images; 0: all")
      ->capture_default_str();
  demo->add_option("--seed", options->seed, "Of initial weights and of the images' order")
      ->capture_default_str();
  demo->add_option("--method", options->methods,
                   "Comma-separated; all if not given: " + demo_method_names())
      ->delimiter(',');
  demo->add_option("--width", options->width,
                   "Steps under way at once: 1 to 8, or auto, which goes by what steps take")
      ->capture_default_str();
  demo->add_flag("--auto-wire", options->auto_wire,
                 "With --width auto: 16 bits on the wire too, where that is faster");
  demo->add_option("--report", options->report, "Where the report goes, an HTML file")
      ->capture_default_str();
  demo->add_option("--data", options->data, "Directory of Fashion-MNIST's four files")
      ->capture_default_str();
  demo->add_flag("--loopback", options->loopback, "Do not make network namespaces");
  demo->add_flag("--json", options->json, "One JSON object per method on standard output");
  demo->callback([options, &exit_code] { exit_code = run_demo(*options); });

  // An empty group hides it from the help.
  CLI::App* worker = app.add_subcommand("demo-worker", "One worker of the demo")->group("");
  worker->callback([&exit_code] { exit_code = run_demo_worker(); });
}

}  // namespace sumcast::cli
