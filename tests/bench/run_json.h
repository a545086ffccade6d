// Runs the built `sumcast` as a user does and reads its JSON lines.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "lab/process.h"

namespace sumcast {

struct Outcome {
  lab::ExitStatus status;
  std::vector<nlohmann::json> rows;  ///< One per line of standard output.
};

/// `sumcast <words> --json`.
inline Outcome run_json(const std::string& words) {
  using namespace std::chrono_literals;
  std::vector<std::string> command = {SUMCAST};
  std::istringstream each(words);
  for (std::string word; each >> word;) command.push_back(word);
  command.emplace_back("--json");
  lab::SpawnOptions options;
  options.output = lab::Redirect::pipe();
  auto process = lab::spawn_process(command, options);
  Outcome outcome;
  if (!process) {
    ADD_FAILURE() << process.error().what;
    return outcome;
  }
  const auto output = process->read_output(240s);
  EXPECT_TRUE(output.has_value());
  std::istringstream lines(output.value_or(""));
  for (std::string line; std::getline(lines, line);) {
    nlohmann::json row = nlohmann::json::parse(line, nullptr, false);
    EXPECT_FALSE(row.is_discarded()) << "not JSON: " << line;
    if (!row.is_discarded()) outcome.rows.push_back(std::move(row));
  }
  outcome.status = process->wait(30s).value_or(lab::ExitStatus{.code = -1, .signal = 0, .cpu = {}});
  return outcome;
}

}  // namespace sumcast
