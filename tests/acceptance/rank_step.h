// One line of a rank's script: "all_reduce f32 sum 1000 seed=3".
//
// A verb, words in order, and options as name=value. It does not know any verb.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace sumcast::acceptance {

class Step {
 public:
  static Step parse(std::string_view line);

  const std::string& verb() const { return verb_; }
  /// The whole line behind the verb.
  const std::string& rest() const { return rest_; }
  /// The word at `index` behind the verb, or an empty one.
  std::string word(size_t index) const { return index < words_.size() ? words_[index] : ""; }
  bool has(const std::string& option) const { return options_.contains(option); }
  std::string text(const std::string& option, const std::string& otherwise = "") const;
  uint64_t number(const std::string& option, uint64_t otherwise) const;
  double real(const std::string& option, double otherwise) const;

 private:
  std::string verb_, rest_;
  std::vector<std::string> words_;
  std::map<std::string, std::string> options_;
};

/// "0,2,1" as numbers; what is no number counts as 0.
std::vector<uint32_t> numbers_in(std::string_view list);

}  // namespace sumcast::acceptance
