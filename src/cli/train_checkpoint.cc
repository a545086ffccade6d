#include "cli/train_checkpoint.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "runtime/log.h"

namespace sumcast::cli {
namespace {

/// So many checkpoints in between hold only what moved: restoring reads them all.
constexpr uint32_t kFullEvery = 10;

using Json = nlohmann::ordered_json;

}  // namespace

std::string encode_position(const TrainPosition& position, const TrainOptions& options,
                            std::span<const float> dense) {
  const Json json = {{"model", options.model},
                     {"epoch", position.epoch},
                     {"step", position.step},
                     {"workers", options.workers},
                     {"batch", options.batch},
                     {"loss", position.loss.sum},
                     {"examples", position.loss.examples},
                     {"dense", dense.size()}};
  std::string state = json.dump() + "\n";
  state.append(reinterpret_cast<const char*>(dense.data()), dense.size_bytes());
  return state;
}

Result<TrainPosition> decode_position(const std::string& state, const TrainOptions& options,
                                      std::span<float> dense) {
  const auto refuse = [](std::string why) {
    return fail(ErrorCode::kInvalidArgument, "checkpoint: " + std::move(why));
  };
  const size_t line = state.find('\n');
  const Json json = line == std::string::npos ? Json(Json::value_t::discarded)
                                              : Json::parse(state.substr(0, line), nullptr, false);
  if (json.is_discarded()) return refuse("not one of sumcast train");
  try {
    const auto model = json.at("model").get<std::string>();
    if (model != options.model) {
      return refuse(fmt::format("it is of --model {}, this training of {}", model, options.model));
    }
    if (json.at("dense").get<size_t>() != dense.size() ||
        state.size() - line - 1 != dense.size_bytes()) {
      return refuse(fmt::format("it has {} dense parameters with their state, this model {}",
                                json.at("dense").get<size_t>(), dense.size()));
    }
    TrainPosition position;
    json.at("epoch").get_to(position.epoch);
    json.at("loss").get_to(position.loss.sum);
    json.at("examples").get_to(position.loss.examples);
    const auto samples = json.at("step").get<uint64_t>() * json.at("workers").get<uint64_t>() *
                         json.at("batch").get<uint64_t>();
    position.step = samples / (uint64_t{options.workers} * options.batch);
    if (position.epoch == 0) return refuse("it is of epoch 0");
    if (!dense.empty()) std::memcpy(dense.data(), state.data() + line + 1, dense.size_bytes());
    return position;
  } catch (const Json::exception& error) {
    return refuse(error.what());
  }
}

Result<void> open_checkpoints(const TrainOptions& options, sparse::Options& job) {
  if (options.checkpoint.empty()) return {};
  std::error_code error;
  std::filesystem::create_directories(options.checkpoint, error);
  if (error) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("--checkpoint {}: {}", options.checkpoint, error.message()));
  }
  job.checkpoint_directory = options.checkpoint;
  if (!options.resume) return {};
  auto manifest = sparse::read_manifest(options.checkpoint);
  if (!manifest) return fail(manifest.error());
  job.restore = std::move(*manifest);
  return job.validate();
}

Result<TrainPosition> first_position(const TrainOptions& options, const sparse::Options& job,
                                     std::span<float> dense, uint32_t rank) {
  if (!job.restore) return TrainPosition();
  auto state = sparse::read_state(job.checkpoint_directory, *job.restore);
  if (!state) return fail(state.error());
  auto position = decode_position(*state, options, dense);
  if (position && rank != 0) position->loss = TrainLoss();
  return position;
}

Result<void> TrainSaver::save(TrainPosition position, bool full) {
  // Dense parameters are to be as far as the rows.
  if (auto caught_up = rows_.catch_up(); !caught_up) return caught_up;
  // Everybody's loss travels, worker 0's state stays.
  std::array<double, 2> loss = {position.loss.sum, static_cast<double>(position.loss.examples)};
  if (auto summed = rows_.all_reduce(std::span<double>(loss)); !summed) return summed;
  position.loss = {loss[0], static_cast<uint64_t>(loss[1])};
  steps_ = 0;
  return rows_.save(full || saved_++ % kFullEvery == 0,
                    encode_position(position, options_, dense_));
}

Result<void> TrainSaver::after_step(const TrainPosition& position) {
  if (options_.checkpoint_every == 0 || ++steps_ < options_.checkpoint_every) return {};
  auto saved = save(position, false);
  if (saved || saved.error().code != ErrorCode::kSystem) return saved;
  if (rank_ == 0) {
    runtime::log_warn(runtime::Subsystem::kInit, "no checkpoint after step {} of epoch {}: {}",
                      position.step, position.epoch, saved.error().what);
  }
  return {};
}

Result<void> TrainSaver::after_epoch(uint32_t epoch) {
  if (options_.checkpoint.empty()) return {};
  return save({.epoch = epoch + 1, .step = 0, .loss = {}}, epoch == options_.epochs);
}

}  // namespace sumcast::cli
