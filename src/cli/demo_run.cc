#include "cli/demo_run.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>
#include <utility>

#include "auth/key_file.h"
#include "cli/demo_bar.h"
#include "cli/demo_crew.h"
#include "cli/demo_print.h"
#include "cli/demo_result.h"
#include "cli/exit_codes.h"
#include "cli/output_file.h"
#include "lab/cluster.h"
#include "lab/interrupt.h"
#include "lab/privileges.h"
#include "report/demo_report.h"
#include "report/progress.h"
#include "report/units.h"
#include "runtime/clock.h"
#include "runtime/environment.h"
#include "trainer/idx.h"

namespace sumcast::cli {
namespace {

/// A reduction may take the wire time many times over before it counts as stuck.
constexpr int kPatience = 10;
constexpr uint64_t kGradientBitsAbout = 25'000'000;

/// A directory that vanishes with its owner.
class ScratchDirectory {
 public:
  static Result<ScratchDirectory> make() {
    std::error_code error;
    std::string path = std::filesystem::temp_directory_path(error) / "sumcast-demo-XXXXXX";
    if (error || ::mkdtemp(path.data()) == nullptr) {
      return fail(ErrorCode::kSystem, fmt::format("cannot make a temporary directory {}: {}", path,
                                                  std::strerror(errno)));
    }
    return ScratchDirectory(std::move(path));
  }
  ScratchDirectory(ScratchDirectory&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  ScratchDirectory& operator=(ScratchDirectory&&) = delete;
  ~ScratchDirectory() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  explicit ScratchDirectory(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

/// What the demo runs, and where, once everything has been found to be in place.
struct Setup {
  ScratchDirectory scratch;
  lab::Cluster cluster;
  CrewOptions crew;
  WorkerPlan plan;
  DemoSetting setting;
  uint64_t steps = 0;
};

void complain(const std::string& what) { fmt::print(stderr, "sumcast demo: {}\n", what); }

std::string cpu_model() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown processor";
}

DemoSetting describe_machine() {
  DemoSetting setting;
  utsname names{};
  ::uname(&names);
  setting.kernel = fmt::format("{} {} ({})", names.sysname, names.release, names.machine);
  setting.cpu = cpu_model();
  setting.cores = static_cast<int>(std::thread::hardware_concurrency());
  // "2025-11-29T18:06:53.042Z"
  const std::string time = runtime::wall_time_text();
  setting.started = fmt::format("{} {} UTC", time.substr(0, 10), time.substr(11, 5));
  setting.version = SUMCAST_VERSION;
  return setting;
}

/// This program, and sumcastd beside it.
Result<void> find_programs(bool needs_daemon, CrewOptions& crew) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return fail(ErrorCode::kSystem, "cannot find this program: " + error.message());
  crew.worker = {self.string(), "demo-worker"};
  const std::string daemon = (self.parent_path() / "sumcastd").string();
  if (needs_daemon && ::access(daemon.c_str(), X_OK) != 0) {
    return fail(ErrorCode::kUnavailable,
                fmt::format("cannot run {}: {}; build it (target sumcastd) or leave out the "
                            "methods that need it (--method direct,ring)",
                            daemon, std::strerror(errno)));
  }
  crew.daemon = {daemon};
  return {};
}

/// Namespaces if they can be had, else loopback with the reason in `notice`.
Result<lab::Cluster> make_cluster(const DemoOptions& options, bool with_server,
                                  std::string& notice) {
  lab::ClusterOptions wanted;
  wanted.workers = options.workers;
  wanted.rate_bits_per_second = options.rate_bits_per_second();
  wanted.with_server = with_server;
  std::optional<std::string> obstacle;
  if (options.loopback) {
    obstacle = "--loopback was given";
  } else if (const Result<void> entered = lab::enter_user_namespace_if_needed(); !entered) {
    obstacle = entered.error().what;
  } else {
    obstacle = lab::why_no_namespaces();
  }
  if (!obstacle) return lab::Cluster::build(wanted);
  notice = lab::loopback_notice(*obstacle);
  return lab::Cluster::on_loopback(wanted);
}

Result<Setup> prepare(const DemoOptions& options) {
  const std::vector<DemoMethod> methods = options.chosen_methods();
  const auto needs = [&](DaemonSite site) {
    return std::ranges::any_of(methods, [&](const auto& method) { return method.daemon == site; });
  };
  // The data are read here only to be checked; every worker reads its own.
  const Result<trainer::FashionMnist> data = trainer::load_fashion_mnist(options.data);
  if (!data) return fail(data.error());
  DemoSetting setting = describe_machine();
  setting.training_images = data->training.count;
  if (options.steps(setting.training_images) == 0) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} images are too few for one step of {} workers with --batch {}",
                            setting.training_images, options.workers, options.batch));
  }
  CrewOptions crew;
  const bool needs_daemon = needs(DaemonSite::kAggregator) || needs(DaemonSite::kServer);
  if (auto found = find_programs(needs_daemon, crew); !found) return fail(found.error());
  Result<lab::Cluster> cluster =
      make_cluster(options, needs(DaemonSite::kServer), setting.loopback_notice);
  if (!cluster) return fail(cluster.error());
  Result<ScratchDirectory> scratch = ScratchDirectory::make();
  if (!scratch) return fail(scratch.error());
  crew.directory = scratch->path();

  WorkerPlan plan;
  plan.key_file = scratch->path() + "/key";
  if (auto written = auth::write_key_file(plan.key_file); !written) return fail(written.error());
  // An absolute path holds wherever the workers run.
  plan.data = std::filesystem::absolute(options.data).string();
  plan.epochs = options.epochs;
  plan.batch = options.batch;
  plan.images = options.images;
  plan.seed = options.seed;
  plan.width = options.width_number();
  plan.auto_wire = options.auto_wire;
  plan.timeout_ms = 60'000 + kPatience * 1000 * static_cast<uint64_t>(options.workers) *
                                 kGradientBitsAbout / options.rate_bits_per_second();
  const uint64_t steps = options.steps(setting.training_images);
  return Setup{std::move(*scratch), std::move(*cluster), std::move(crew),
               std::move(plan),     std::move(setting),  steps};
}

Result<MethodOutcome> run_one(Setup& setup, const DemoMethod& method, DemoBar& bar) {
  bar.begin(method.name, setup.steps, runtime::monotonic_now());
  WorkerPlan plan = setup.plan;
  plan.job = fmt::format("demo {}", method.name);
  const auto on_step = [&](const WorkerStep& at) {
    bar.update(at.step, at.loss, runtime::monotonic_now());
  };
  const Result<MethodRun> run = run_method(setup.cluster, setup.crew, method, plan, on_step);
  if (!run) return fail(run.error());
  bar.finish(runtime::monotonic_now());
  return summarise(method, *run);
}

/// One line on what is about to happen.
std::string announcement(const DemoOptions& options, const Setup& setup) {
  const std::string links =
      setup.cluster.has_links()
          ? fmt::format("on {} links", report::format_bit_rate(
                                           static_cast<double>(options.rate_bits_per_second())))
          : "over loopback";
  return fmt::format("{} workers {}, {} steps of {} images on Fashion-MNIST with each method",
                     options.workers, links, report::format_count(setup.steps),
                     options.workers * options.batch);
}

Result<std::vector<MethodOutcome>> run_all(const DemoOptions& options, Setup& setup) {
  const std::vector<DemoMethod> methods = options.chosen_methods();
  const bool colour = !runtime::environment("NO_COLOR").has_value();
  DemoBar bar(report::probe_terminal(STDERR_FILENO, colour), static_cast<int>(methods.size()),
              [](std::string_view text) {
                std::fwrite(text.data(), 1, text.size(), stderr);
                std::fflush(stderr);
              });
  std::vector<MethodOutcome> outcomes;
  for (const DemoMethod& method : methods) {
    Result<MethodOutcome> outcome = run_one(setup, method, bar);
    if (!outcome) return fail(outcome.error().within(std::string(method.name)));
    outcomes.push_back(std::move(*outcome));
    if (options.json) {
      fmt::print("{}", demo_json(outcomes.back(), outcomes));
      std::fflush(stdout);
    }
  }
  return outcomes;
}

}  // namespace

int run_demo(const DemoOptions& options) {
  const Instant start = runtime::monotonic_now();
  const std::vector<std::string> problems = options.validate();
  for (const std::string& problem : problems) complain(problem);
  if (!problems.empty()) return kExitUsage;
  const lab::ScopedInterrupt interrupt;
  // An interrupt ends the children, and what fails for that is not worth telling.
  const auto failed = [](const Error& error) {
    const bool interrupted = lab::ScopedInterrupt::requested();
    complain(interrupted ? "interrupted" : error.what);
    return interrupted ? 128 + lab::ScopedInterrupt::signal_number() : exit_code_of(error);
  };
  Result<Setup> setup = prepare(options);
  if (!setup) return failed(setup.error());
  if (!setup->setting.loopback_notice.empty()) complain(setup->setting.loopback_notice);
  complain(announcement(options, *setup));
  const Result<std::vector<MethodOutcome>> outcomes = run_all(options, *setup);
  if (!outcomes) return failed(outcomes.error());
  const auto data = demo_report_data(options, setup->setting, *outcomes);
  const Result<void> written = write_output_file(options.report, report::demo_report_html(data));
  if (!options.json) fmt::print("\n{}", demo_table(*outcomes));
  if (!options.json && written) {
    fmt::print("report:  {}\n",
               std::filesystem::absolute(options.report).lexically_normal().string());
  }
  if (!options.json) {
    fmt::print("total:   {}\n", report::format_duration(runtime::monotonic_now() - start));
  }
  std::fflush(stdout);
  if (!written) complain(written.error().what);
  const auto broken = broken_promises(*outcomes, options.full_size(setup->setting.training_images));
  for (const std::string& promise : broken) complain("promise broken: " + promise);
  return written && broken.empty() ? 0 : kExitFailed;
}

}  // namespace sumcast::cli
