// One rank of a job as a process that does what it is told, a line at a time.
//
// A test writes steps to its standard input and reads one line of JSON for each from its standard
// output. Everything goes through the public API; what a step found out (error texts, digests of
// tensors, whether memory was touched) is in the answer, and the judgement is the test's.
//
//   join rank=0 world=4 coordinator=H:P|aggregator=H:P [key=FILE] [algorithm=direct] [timeout=MS]
//        [join_timeout=MS] [interface=SEL] [mtu=N] [loss=P dup=P reorder=P seed=N] [tag=WORD]
//        [share=1]                 ranks of one host share memory; else each is a host of its own
//   join env                         what the launcher's variables say
//   leave | tag TEXT | sleep MS | group NAME 0,2,1 | close NAME | facts
//   all_reduce|reduce|broadcast|all_gather|reduce_scatter TYPE REDUCTION COUNT [seed=N] [root=R]
//        [group=NAME] [calls=K] [wire=F] [algorithm=A] [timeout=MS] [values=exact]
//   loop ...                         as all_reduce, again and again until it fails
//   post ...                         as all_reduce, without waiting; then
//   wait MS | fill BYTE | check BYTE of what was posted
//   big TYPE COUNT                   a tensor of known formula, checked without a copy
//   swarm groups=G threads=T rounds=N seed=S     many groups at once, see rank_stress.cc
//   cycle count=N | small count=N    groups made and dropped; many small operations
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "acceptance/rank_step.h"
#include "acceptance/tensor.h"
#include "sumcast/sumcast.hpp"

namespace sumcast::acceptance {

/// What a step asks to be reduced, and the memory for it.
struct Call {
  std::string kind = "all_reduce";
  ElementType type = ElementType::kF32;
  Reduction reduction = Reduction::kSum;
  Values values = Values::kAny;
  uint64_t count = 0;  ///< As the API takes it: per rank for all_gather and reduce_scatter.
  uint64_t seed = 1;
  uint32_t root = 0;
  uint32_t calls = 1;  ///< The tensor in so many calls under way at once; divides `count`.
  sumcast::Call options;

  std::vector<std::byte> in, out;
};

/// The byte that outputs are filled with before a call.
inline constexpr std::byte kUntouched{0x5A};

class RankProgram {
 public:
  /// Executes one step; the answer always has "ok".
  nlohmann::json run(const Step& step);

 private:
  nlohmann::json join(const Step& step);
  nlohmann::json open_group(const Step& step);
  nlohmann::json reduce(const Step& step);
  nlohmann::json loop(const Step& step);
  nlohmann::json post(const Step& step);
  nlohmann::json wait(const Step& step);
  nlohmann::json big(const Step& step);
  nlohmann::json swarm(const Step& step);
  nlohmann::json cycle(const Step& step);
  nlohmann::json small(const Step& step);

  Group& group_of(const Step& step);
  /// Reads the words of a reducing step and makes its tensors. Throws std::invalid_argument.
  Call call_of(const Step& step, const Group& group) const;

  std::unique_ptr<Context> context_;
  std::map<std::string, Group> groups_;
  std::optional<Call> posted_;
  std::vector<Work> works_;
};

/// Descriptors, memory and sockets of this process.
nlohmann::json process_facts();

/// {"ok": true} or the error: {"ok": false, "code": 4, "error": "..."}.
nlohmann::json answer_of(const Result<void>& result);

/// Starts all calls of `call`; the first error if one does not start.
Result<std::vector<Work>> start_calls(Group& group, Call& call);

}  // namespace sumcast::acceptance
