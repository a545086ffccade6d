#include "cli/train_options.h"

#include <fmt/format.h>

#include <charconv>

namespace sumcast::cli {
namespace {

std::optional<uint32_t> number(const std::string& text) {
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
  if (epochs == 0) return refuse("--epochs", epochs, "1 or more");
  if (batch == 0) return refuse("--batch", batch, "1 or more");
  return {};
}

std::optional<uint32_t> TrainOptions::hot_keys() const { return number(hot); }

Result<sparse::Options> TrainOptions::job(uint32_t width, float init_scale) const {
  const auto kind = table::optimizer_from_name(optimizer);
  if (!kind) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("--optimizer {}: it must be one of {}",
                                                         optimizer, table::optimizer_names()));
  }
  const auto gradients =
      wire == "fp32" ? std::optional(WireFormat::kNative) : wire_format_from_name(wire);
  if (!gradients) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("--wire {}: it must be fp32, bf16, fp16 or int8", wire));
  }
  sparse::Options options;
  options.workers = workers;
  options.servers = servers;
  options.wire = *gradients;
  options.shape.width = width;
  options.shape.init_scale = init_scale;
  options.shape.seed = seed;
  options.shape.optimizer.kind = *kind;
  options.shape.optimizer.rate = rate;
  if (auto fine = options.validate(); !fine) return fail(fine.error());
  return options;
}

}  // namespace sumcast::cli
