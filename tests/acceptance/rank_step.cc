#include "acceptance/rank_step.h"

#include <cstdlib>
#include <sstream>

namespace sumcast::acceptance {

Step Step::parse(std::string_view line) {
  Step step;
  std::istringstream in{std::string(line)};
  in >> step.verb_;
  std::getline(in >> std::ws, step.rest_);
  std::istringstream words(step.rest_);
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    // "==" and a leading "=" belong to interface names, which stand on the right.
    if (equals == std::string::npos || equals == 0) {
      step.words_.push_back(word);
    } else {
      step.options_[word.substr(0, equals)] = word.substr(equals + 1);
    }
  }
  return step;
}

std::string Step::text(const std::string& option, const std::string& otherwise) const {
  const auto found = options_.find(option);
  return found == options_.end() ? otherwise : found->second;
}

uint64_t Step::number(const std::string& option, uint64_t otherwise) const {
  const auto found = options_.find(option);
  return found == options_.end() ? otherwise : std::strtoull(found->second.c_str(), nullptr, 0);
}

double Step::real(const std::string& option, double otherwise) const {
  const auto found = options_.find(option);
  return found == options_.end() ? otherwise : std::strtod(found->second.c_str(), nullptr);
}

std::vector<uint32_t> numbers_in(std::string_view list) {
  std::vector<uint32_t> numbers;
  std::istringstream in{std::string(list)};
  for (std::string one; std::getline(in, one, ',');) {
    numbers.push_back(static_cast<uint32_t>(std::strtoul(one.c_str(), nullptr, 10)));
  }
  return numbers;
}

}  // namespace sumcast::acceptance
