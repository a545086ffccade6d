#include "cli/pslite_crew.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>

namespace sumcast::cli {
namespace {

constexpr Duration kBuildPatience = 180s;
constexpr std::string_view kSource = SUMCAST_SOURCE_DIR "/bench/ps/ps_rounds_main.cc";

bool is_there(const std::string& path) { return ::access(path.c_str(), R_OK) == 0; }

/// A batch file as the driver reads it.
Result<void> write_file(const std::string& path, const SparseBatches& batches) {
  std::ofstream file(path, std::ios::binary);
  const auto put = [&](const auto* data, size_t count) {
    file.write(reinterpret_cast<const char*>(data),
               static_cast<std::streamsize>(count * sizeof *data));
  };
  const auto count = static_cast<uint32_t>(batches.keys.size());
  put(&count, 1);
  for (const std::vector<uint64_t>& keys : batches.keys) {
    const uint64_t size = keys.size();
    put(&size, 1);
    put(keys.data(), keys.size());
  }
  put(batches.noise.data(), batches.noise.size());
  file.close();
  if (file) return {};
  return fail(ErrorCode::kSystem, fmt::format("{}: the batches could not be written", path));
}

}  // namespace

Result<std::string> pslite_directory(const SparseFlags& flags) {
  const auto refuse = [](const std::string& what) {
    return fail(ErrorCode::kInvalidArgument, what);
  };
  constexpr std::string_view kPrefix = "pslite=";
  if (!flags.peer.starts_with(kPrefix) || flags.peer.size() == kPrefix.size()) {
    return refuse(
        fmt::format("--peer {}: it must be pslite=DIR, a ps-lite with its build", flags.peer));
  }
  if (flags.optimizer != "adagrad" || flags.wire != "fp32" || flags.loss != 0) {
    return refuse("--peer: the driver knows --optimizer adagrad and --wire fp32, and no --loss");
  }
  return flags.peer.substr(kPrefix.size());
}

Result<std::unique_ptr<PsLiteCrew>> PsLiteCrew::create(BenchSite& site, const SparseFlags& flags,
                                                       const std::string& directory) {
  std::unique_ptr<PsLiteCrew> crew(new PsLiteCrew(site, flags));
  const auto options = sparse_options(flags);
  if (!options) return fail(options.error());
  crew->rate_ = options->shape.optimizer.rate;
  auto scratch = ScratchDirectory::create();
  if (!scratch) return fail(scratch.error());
  crew->scratch_.emplace(std::move(*scratch));
  if (auto built = crew->build(directory); !built) return fail(built.error());
  if (auto written = crew->write_batches(); !written) return fail(written.error());
  return crew;
}

Result<void> PsLiteCrew::build(const std::string& directory) {
  std::string library;
  for (const char* place : {"/build/libps.a", "/build/libpslite.a", "/libpslite.a"}) {
    if (library.empty() && is_there(directory + place)) library = directory + place;
  }
  if (library.empty() || !is_there(directory + "/include/ps/ps.h")) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("--peer pslite={}: no include/ps/ps.h with build/libps.a there; build "
                            "ps-lite first (docs/ps-lite.md)",
                            directory));
  }
  if (!is_there(std::string(kSource))) {
    return fail(ErrorCode::kUnavailable,
                fmt::format("--peer needs {} of Sumcast's source tree", kSource));
  }
  auto compiled =
      lab::run_to_end({"c++", "-std=c++17", "-O2", "-ffp-contract=off",
                       "-I" + directory + "/include", std::string(kSource), "-o",
                       scratch_->path() + "/ps_rounds", library, "-lzmq", "-lprotobuf", "-pthread"},
                      "", kBuildPatience);
  return compiled ? Result<void>() : fail(compiled.error().within("--peer"));
}

Result<void> PsLiteCrew::write_batches() {
  const auto stream = make_sparse_stream(flags_);
  if (!stream) return fail(stream.error());
  for (uint32_t rank = 0; rank < flags_.workers; ++rank) {
    auto written = write_file(fmt::format("{}/batches.{}", scratch_->path(), rank),
                              draw_sparse_batches(**stream, flags_, rank));
    if (!written) return written;
  }
  return {};
}

Result<void> PsLiteCrew::spawn() {
  const std::vector<std::string> argv = {scratch_->path() + "/ps_rounds", scratch_->path(),
                                         fmt::format("{}", flags_.width), fmt::format("{}", rate_)};
  const auto root = lab::Node::aggregator();
  const std::vector<std::string> job = {"DMLC_PS_ROOT_URI=" + site_.cluster().address(root),
                                        fmt::format("DMLC_PS_ROOT_PORT={}", site_.next_port()),
                                        fmt::format("DMLC_NUM_WORKER={}", flags_.workers),
                                        fmt::format("DMLC_NUM_SERVER={}", flags_.servers)};
  for (uint32_t member = 0; member <= flags_.workers + flags_.servers; ++member) {
    const bool is_worker = member < flags_.workers;
    const bool is_root = member == flags_.workers + flags_.servers;
    const auto node = is_root ? root : lab::Node::of_worker(static_cast<int>(member));
    lab::SpawnOptions spawning;
    spawning.env = job;
    spawning.env.push_back("DMLC_NODE_HOST=" + site_.cluster().address(node));
    spawning.env.push_back(std::string("DMLC_ROLE=") + (is_root     ? "scheduler"
                                                        : is_worker ? "worker"
                                                                    : "server"));
    spawning.input = lab::Redirect::pipe();
    spawning.output = lab::Redirect::pipe();
    auto process = site_.cluster().spawn(node, argv, spawning);
    if (!process) return fail(process.error());
    members_.push_back(std::move(*process));
  }
  return {};
}

}  // namespace sumcast::cli
