// sumcast-test-rank: reads steps from standard input, answers each with a line of JSON
// (rank_program.h lists them). Ends with its input, without leaving the job unless told to.
#include <exception>
#include <iostream>

#include "acceptance/rank_program.h"

int main() {
  using namespace sumcast::acceptance;
  RankProgram program;
  for (std::string line; std::getline(std::cin, line);) {
    const Step step = Step::parse(line);
    if (step.verb().empty()) continue;
    nlohmann::json answer;
    try {
      answer = program.run(step);
    } catch (const std::exception& error) {
      answer = {{"ok", false}, {"error", std::string("no such step: ") + error.what()}};
    }
    answer["step"] = step.verb();
    std::cout << answer.dump() << std::endl;
  }
  return 0;
}
