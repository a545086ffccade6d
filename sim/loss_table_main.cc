// Prints what loss costs under several ways to recover (virtual time, so the machine does not
// matter): sim_loss_table [seeds]. The findings stand in docs/perf-notes.md.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "sim/loss_cost.h"

using sumcast::sim::LossCost;
using sumcast::sim::LossCostConfig;

namespace {

void row(const std::string& name, LossCostConfig config, uint32_t seeds) {
  std::printf("%-34s", name.c_str());
  double clean = 0;
  for (const double loss : {0.0, 0.001, 0.01}) {
    config.loss = loss;
    const LossCost cost = loss_cost(config, loss == 0 ? 1 : seeds);
    if (loss == 0) {
      clean = cost.milliseconds;
      std::printf(" %7.1f ms (%5.3f)", cost.milliseconds, cost.over_wire);
    } else {
      std::printf(" |%6.3f worst%6.3f again%5.1f%% waste%5.2f%%", cost.milliseconds / clean,
                  cost.worst / clean, 100 * cost.repeats_share, 100 * cost.wasted_share);
    }
  }
  std::printf("\n");
  std::fflush(stdout);
}

/// One line for each value of one knob.
template <typename Values, typename Set>
void vary(const LossCostConfig& base, uint32_t seeds, const char* knob, const Values& values,
          Set&& set) {
  for (const auto& value : values) {
    LossCostConfig config = base;
    set(config, value);
    row(std::string("  ") + knob + " " + std::to_string(value), config, seeds);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto seeds = static_cast<uint32_t>(argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 5);
  using Milliseconds = std::chrono::milliseconds;
  using Microseconds = std::chrono::microseconds;
  std::printf("%-34s %20s | 0.1 %% loss, and 1 %%: time over no loss\n", "n = 8, 300 Mbit/s",
              "no loss (over wire)");
  const LossCostConfig plain;
  row("RFC 6298 as it stands", plain, seeds);
  vary(plain, seeds, "RTO, round trips at least", std::array{1.5, 2.0, 2.5, 3.0, 4.0},
       [](auto& c, double v) { c.recovery.rto_factor = v; });

  LossCostConfig base = plain;
  base.recovery.rto_factor = 2.5;
  row("RTO at least 2.5 round trips, and", base, seeds);
  vary(base, seeds, "reorder window, us", std::array{100, 200, 500, 2000, 4000},
       [](auto& c, int v) { c.reorder_window = Microseconds(v); });
  vary(base, seeds, "ask interval, ms", std::array{3, 5, 7, 15, 20, 30},
       [](auto& c, int v) { c.ask_interval = Milliseconds(v); });
  vary(base, seeds, "gap interval, ms", std::array{3, 5, 7, 15, 20, 30},
       [](auto& c, int v) { c.gap_interval = Milliseconds(v); });
  vary(base, seeds, "silence, round trips", std::array{0.25, 0.5, 0.75, 1.0, 1.5},
       [](auto& c, double v) { c.recovery.silence_factor = v; });
  vary(base, seeds, "asks ahead probe", std::array{1},
       [](auto& c, int) { c.recovery.ask_ahead_probes = true; });
  vary(base, seeds, "slots", std::array{88, 132, 264, 352},
       [](auto& c, int v) { c.slots = static_cast<uint16_t>(v); });
  vary(base, seeds, "in flight of 176 slots", std::array{44, 88, 132},
       [](auto& c, int v) { c.in_flight_max = static_cast<uint32_t>(v); });
  vary(base, seeds, "one-way delay, us", std::array{10, 500, 2000},
       [](auto& c, int v) { c.delay = Microseconds(v); });
  vary(base, seeds, "duty cycle, us", std::array{0, 200, 1000},
       [](auto& c, int v) { c.duty_cycle = Microseconds(v); });
  vary(base, seeds, "datagrams arrive singly", std::array{1},
       [](auto& c, int) { c.keeps_batches = false; });
  vary(base, seeds, "chunks", std::array{100, 176, 1000},
       [](auto& c, int v) { c.chunks = static_cast<uint32_t>(v); });

  base.recovery.silence_factor = 0.25;
  row("and probes after silence, and", base, seeds);
  vary(base, seeds, "chunks", std::array{100, 176, 1000},
       [](auto& c, int v) { c.chunks = static_cast<uint32_t>(v); });
  vary(base, seeds, "slots", std::array{132, 264, 352},
       [](auto& c, int v) { c.slots = static_cast<uint16_t>(v); });
  vary(base, seeds, "ask interval, ms", std::array{15, 20},
       [](auto& c, int v) { c.ask_interval = Milliseconds(v); });
  base.slots = 352;
  vary(base, seeds, "352 slots, ask, gap interval", std::array{10, 20, 30},
       [](auto& c, int v) { c.ask_interval = c.gap_interval = Milliseconds(v); });
  base.slots = 176;
  base.members = 32;
  row("  32 members", base, 1);
  base.members = 8;
  base.link_bits_per_second = 10'000'000'000;
  row("  10 Gbit/s, duty cycle 50 us", base, seeds);
  base.duty_cycle = Microseconds(5);
  base.delay = Microseconds(5);
  row("  10 Gbit/s, delay and duty cycle 5 us", base, seeds);
  base.reorder_window = Microseconds(100);
  base.rtt.rto_min = base.recovery.silence_floor = Microseconds(500);
  vary(base, seeds, "and windows 100, RTO 500, intervals", std::array{500, 1000, 2000},
       [](auto& c, int v) { c.ask_interval = c.gap_interval = Microseconds(v); });
  return 0;
}
