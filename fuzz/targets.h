// What the fuzzers run. Each target accepts any bytes and stops the process if an invariant does
// not hold. A target for a state machine takes its starting state from the first byte, so that the
// fuzzer need not find the way there, and reads the rest as calls.
//
// Adding a target: declare it here, add it to kTargets, and list it in CMakeLists.txt.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace sumcast::fuzz {

void parse(std::span<const uint8_t> bytes);
void rows(std::span<const uint8_t> bytes);
void compact(std::span<const uint8_t> bytes);
void slot_pool(std::span<const uint8_t> bytes);
void send_window(std::span<const uint8_t> bytes);

struct Target {
  const char* name;
  void (*run)(std::span<const uint8_t>);
};
inline constexpr std::array<Target, 5> kTargets{{{"parse", parse},
                                                 {"rows", rows},
                                                 {"compact", compact},
                                                 {"slot_pool", slot_pool},
                                                 {"send_window", send_window}}};

}  // namespace sumcast::fuzz
