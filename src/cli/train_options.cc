#include "cli/train_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "cli/bench_plan.h"
#include "cli/row_format.h"

namespace sumcast::cli {
namespace {

std::optional<uint32_t> number(std::string_view text) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

Result<void> TrainOptions::validate() const {
  const auto refuse = [](std::string_view flag, auto value, std::string_view wanted) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} {}: it must be {}", flag, value, wanted));
  };
  if (!(test_share > 0 && test_share < 1)) {
    return refuse("--test-share", test_share, "between 0 and 1");
  }
  if (!(sample > 0 && sample <= 1)) return refuse("--sample", sample, "above 0 and at most 1");
  if (hot != "auto" && !number(hot)) return refuse("--hot", hot, "auto, or a number of keys");
  if (asynchronous && hot != "auto" && hot != "0") {
    return refuse("--hot", hot, "0 with --asynchronous: a sum needs all workers' gradients");
  }
  if (asynchronous && model == "deepfm") {
    return refuse("--model", model,
                  "another with --asynchronous: its dense layers are summed by all workers in "
                  "every step (--staleness hides that, too)");
  }
  if (checkpoint.empty() && (resume || checkpoint_every != 0)) {
    return fail(ErrorCode::kInvalidArgument,
                "--resume and --checkpoint-every: they need --checkpoint DIR");
  }
  if (epochs == 0) return refuse("--epochs", epochs, "1 or more");
  if (batch == 0) return refuse("--batch", batch, "1 or more");
  if (order != "random" && order != "file") return refuse("--order", order, "random or file");
  const auto is_layer = [](const std::string& layer) { return number(layer).value_or(0) > 0; };
  if (!std::ranges::all_of(split_at_commas(hidden), is_layer)) {
    return refuse("--hidden", hidden, "numbers such as 64,32");
  }
  if (!(rate >= 0)) return refuse("--rate", rate, "above 0");
  if (!(dense_rate > 0)) return refuse("--dense-rate", dense_rate, "above 0");
  if (vector_width == 0) return refuse("--vector", vector_width, "1 or more");
  if (window == 0) return refuse("--window", window, "1 or more");
  if (negatives == 0) return refuse("--negatives", negatives, "1 or more");
  if (!(thin >= 0)) return refuse("--thin", thin, "0 or more");
  return {};
}

std::vector<int> TrainOptions::hidden_layers() const {
  std::vector<int> layers;
  for (const std::string& layer : split_at_commas(hidden)) {
    layers.push_back(static_cast<int>(std::min<uint32_t>(number(layer).value_or(0), INT32_MAX)));
  }
  return layers;
}

std::optional<uint32_t> TrainOptions::hot_keys() const {
  return asynchronous ? std::optional<uint32_t>(0) : number(hot);
}

float TrainOptions::step_rate() const {
  if (rate != 0) return rate;
  return model == "lr" ? 0.1f : model == "fm" ? 0.05f : model == "deepfm" ? 0.03f : 0.3f;
}

Result<sparse::Options> TrainOptions::job(uint32_t width, float init_scale) const {
  const auto kind = table::optimizer_from_name(optimizer);
  if (!kind) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("--optimizer {}: it must be one of {}",
                                                         optimizer, table::optimizer_names()));
  }
  const auto pushed = parse_row_format("--wire", wire);
  if (!pushed) return fail(pushed.error());
  const auto pulled = parse_row_format("--row-wire", row_wire);
  if (!pulled) return fail(pulled.error());
  sparse::Options options;
  options.workers = workers;
  options.servers = servers;
  options.wire = *pushed;
  options.row_wire = *pulled;
  options.staleness = staleness;
  options.asynchronous = asynchronous;
  options.shape.width = width;
  options.shape.init_scale = init_scale;
  options.shape.seed = seed;
  options.shape.optimizer.kind = *kind;
  options.shape.optimizer.rate = step_rate();
  options.shape.life = {admit_after, evict_after};
  if (auto fine = options.validate(); !fine) return fail(fine.error());
  return options;
}

}  // namespace sumcast::cli
