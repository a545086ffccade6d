#include "sparse/balance.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "numeric/codec.h"
#include "numeric/rows.h"

namespace sumcast::sparse {
namespace {

/// Bytes of a round on the busiest link, scaled to the servers' rate.
double busiest(const LinkModel& m, double cold, double hot, double united, double cells) {
  const double at_server = cold * m.workers / m.servers;
  const double headers = cells * m.cell_bytes;
  const double server_in = at_server * (m.gradient_bytes + m.key_bytes) / m.server_rate;
  const double server_out = at_server * m.row_bytes / m.server_rate;
  const double worker_out =
      (cold * (m.gradient_bytes + m.key_bytes) + hot * m.gradient_bytes + headers) / m.worker_rate;
  const double worker_in =
      (cold * m.row_bytes + united * m.gradient_bytes + headers) / m.worker_rate;
  return std::max({server_in, server_out, worker_out, worker_in});
}

}  // namespace

Balance balance(const LinkModel& model, std::span<const double> chances, double others,
                size_t hot_max) {
  double all = others;
  for (const double chance : chances) all += chance;
  const size_t most = std::min(chances.size(), hot_max);
  // By number of hot keys: bytes on the busiest link.
  std::vector<double> bytes = {busiest(model, all, 0, 0, 0)};
  double hot = 0, united = 0;
  for (size_t count = 1; count <= most; ++count) {
    const double chance = chances[count - 1];
    hot += chance;
    united += 1.0 - std::pow(1.0 - std::min(chance, 1.0), model.workers);
    const double cells = std::ceil(static_cast<double>(count) / model.cell_slots);
    bytes.push_back(busiest(model, all - hot, hot, united, cells));
  }
  const double good_enough = *std::ranges::min_element(bytes) * (1.0 + kTolerance);
  const auto chosen =
      std::ranges::find_if(bytes, [&](double round) { return round <= good_enough; });
  Balance found;
  found.hot = static_cast<size_t>(chosen - bytes.begin());
  found.round_bytes = *chosen;
  found.cold_bytes = bytes.front();
  return found;
}

LinkModel link_model(const Options& job, size_t payload_bytes) {
  const auto bytes_as = [&](WireFormat format) {
    return static_cast<double>(numeric::payload_bytes(ElementType::kF32, format, job.shape.width));
  };
  LinkModel model;
  model.workers = job.workers;
  model.servers = job.servers;
  model.row_bytes = bytes_as(job.row_wire);
  model.gradient_bytes = bytes_as(job.wire);
  model.cell_slots = static_cast<double>(
      std::max<size_t>(1, numeric::slots_per_cell(job.wire, job.shape.width, payload_bytes)));
  return model;
}

Balance balance(const LinkModel& model, const hotset::Chances& chances,
                std::span<const hotset::KeyIndex> order, size_t hot_max) {
  std::vector<double> falling;
  double listed = 0, last = 1;  // Estimates of neighbouring ranks may stand the wrong way round.
  for (const hotset::KeyIndex key : order) {
    last = std::min(last, chances.of[key]);
    falling.push_back(last);
    listed += last;
  }
  return balance(model, falling, std::max(0.0, chances.keys_per_batch - listed), hot_max);
}

std::vector<uint64_t> choose_hot_keys(const LinkModel& model, const hotset::Corpus& corpus,
                                      size_t batch, size_t hot_max) {
  if (corpus.rows() == 0) return {};
  std::vector<uint32_t> rows(corpus.rows());
  std::iota(rows.begin(), rows.end(), 0u);
  const hotset::Heat heat = hotset::count_touches(corpus, rows, 1);
  const auto order = hotset::by_heat(corpus, heat);
  const Balance found = balance(model, hotset::estimate_chances(heat, batch), order, hot_max);
  std::vector<uint64_t> keys;
  if (found.gain() < kGainMin) return keys;
  for (size_t i = 0; i < found.hot; ++i) keys.push_back(corpus.key(order[i]));
  return keys;
}

}  // namespace sumcast::sparse
