// The main of sim_test: takes seeds from flags or from the environment.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "sim/seeds.h"

namespace sumcast::sim {

SeedChoice& seed_choice() {
  static SeedChoice choice;
  return choice;
}

}  // namespace sumcast::sim

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  auto& choice = sumcast::sim::seed_choice();
  const auto number = [](const char* text) { return std::strtoull(text, nullptr, 10); };
  if (const char* text = std::getenv("SUMCAST_SIM_SEED")) choice.only = number(text);
  if (const char* text = std::getenv("SUMCAST_SIM_WORLDS")) choice.worlds = number(text);
  if (const char* text = std::getenv("SUMCAST_SIM_FIRST")) choice.first = number(text);
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    const auto value = [&](std::string_view name) {
      return flag.starts_with(name) ? argv[i] + name.size() : nullptr;
    };
    if (const char* text = value("--seed=")) {
      choice.only = number(text);
    } else if (const char* more = value("--worlds=")) {
      choice.worlds = number(more);
    } else if (const char* from = value("--first=")) {
      choice.first = number(from);
    } else {
      std::fprintf(stderr, "unknown argument %s; known: --seed=N --worlds=N --first=N\n", argv[i]);
      return 2;
    }
  }
  return RUN_ALL_TESTS();
}
