#include "sparse/balance.h"

#include <algorithm>
#include <cmath>
#include <vector>

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

}  // namespace sumcast::sparse
