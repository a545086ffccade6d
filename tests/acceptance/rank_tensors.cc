// Steps that reduce: inputs are made from (seed, rank, index), outputs are known bytes before.
#include <chrono>
#include <stdexcept>

#include "acceptance/rank_program.h"

namespace sumcast::acceptance {

using nlohmann::json;

namespace {

int64_t milliseconds_since(std::chrono::steady_clock::time_point begun) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                               begun)
      .count();
}

Result<Work> start_call(Group& group, Call& call, uint64_t first, uint64_t count) {
  const size_t offset = first * element_bytes(call.type);
  std::byte* in = call.in.data() + offset;
  std::byte* out = call.out.data() + offset;
  if (call.kind == "reduce") {
    return group.reduce_async(in, out, count, call.type, call.reduction, call.root, call.options);
  }
  if (call.kind == "broadcast") {
    return group.broadcast_async(out, count, call.type, call.root, call.options);
  }
  if (call.kind == "all_gather") {
    return group.all_gather_async(in, out, count, call.type, call.options);
  }
  if (call.kind == "reduce_scatter") {
    return group.reduce_scatter_async(in, out, count, call.type, call.reduction, call.options);
  }
  return group.all_reduce_async(in, out, count, call.type, call.reduction, call.options);
}

Result<void> wait_for_all(std::vector<Work>& works) {
  Result<void> first;
  for (Work& work : works) {
    auto result = work.wait();
    if (!result && first) first = std::move(result);
  }
  return first;
}

bool is_untouched(const Call& call) {
  if (call.kind == "broadcast") return call.out == call.in;
  return std::ranges::all_of(call.out, [](std::byte b) { return b == kUntouched; });
}

}  // namespace

Call RankProgram::call_of(const Step& step, const Group& group) const {
  const bool is_named = step.verb() == "loop" || step.verb() == "post";
  Call call;
  call.kind = is_named ? "all_reduce" : step.verb();
  const auto type = element_type_from_name(step.word(0));
  const auto reduction = reduction_from_name(step.word(1));
  const auto wire = wire_format_from_name(step.text("wire", "native"));
  const auto algorithm = algorithm_from_name(step.text("algorithm", "auto"));
  if (!type || !reduction || !wire || !algorithm) throw std::invalid_argument(step.rest());
  call.type = *type;
  call.reduction = *reduction;
  call.values = step.text("values") == "exact" ? Values::kExact : Values::kAny;
  call.count = std::stoull(step.word(2));
  call.seed = step.number("seed", 1);
  call.root = static_cast<uint32_t>(step.number("root", 0));
  call.calls = static_cast<uint32_t>(step.number("calls", 1));
  call.options.wire = *wire;
  call.options.algorithm = *algorithm;
  if (step.has("timeout")) {
    call.options.timeout = std::chrono::milliseconds(step.number("timeout", 0));
  }
  const uint64_t in_count = call.count * (call.kind == "reduce_scatter" ? group.size() : 1);
  const uint64_t out_count = call.count * (call.kind == "all_gather" ? group.size() : 1);
  call.in = make_tensor(call.type, call.values, call.reduction, call.seed, group.rank(), in_count);
  call.out.assign(out_count * element_bytes(call.type), kUntouched);
  if (call.kind == "broadcast") call.out = call.in;
  return call;
}

Result<std::vector<Work>> start_calls(Group& group, Call& call) {
  std::vector<Work> works;
  const uint64_t part = call.count / call.calls;
  for (uint32_t i = 0; i < call.calls; ++i) {
    auto work = start_call(group, call, i * part, part);
    if (!work) return fail(work.error());
    works.push_back(std::move(*work));
  }
  return works;
}

json RankProgram::reduce(const Step& step) {
  static const std::vector<std::string> kinds = {"all_reduce", "reduce", "broadcast", "all_gather",
                                                 "reduce_scatter"};
  if (std::ranges::find(kinds, step.verb()) == kinds.end()) {
    throw std::invalid_argument(step.verb());
  }
  Group& group = group_of(step);
  Call call = call_of(step, group);
  const auto begun = std::chrono::steady_clock::now();
  auto works = start_calls(group, call);
  const Result<void> result = works ? wait_for_all(*works) : fail(works.error());
  json answer = answer_of(result);
  answer["ms"] = milliseconds_since(begun);
  answer["untouched"] = is_untouched(call);
  answer["sha"] = sha256(call.out);
  return answer;
}

json RankProgram::loop(const Step& step) {
  Group& group = group_of(step);
  Call call = call_of(step, group);
  uint64_t rounds = 0;
  for (;; ++rounds) {
    auto works = start_calls(group, call);
    const Result<void> result = works ? wait_for_all(*works) : fail(works.error());
    if (result) continue;
    json answer = answer_of(result);
    answer["rounds"] = rounds;
    return answer;
  }
}

json RankProgram::post(const Step& step) {
  Group& group = group_of(step);
  posted_ = call_of(step, group);
  auto works = start_calls(group, *posted_);
  if (!works) return answer_of(fail(works.error()));
  works_ = std::move(*works);
  return {{"ok", true}};
}

json RankProgram::wait(const Step& step) {
  if (works_.empty()) throw std::invalid_argument("wait before post");
  const auto begun = std::chrono::steady_clock::now();
  json answer = answer_of(works_.back().wait(std::chrono::milliseconds(std::stoul(step.word(0)))));
  answer["ms"] = milliseconds_since(begun);
  answer["untouched"] = is_untouched(*posted_);
  return answer;
}

/// Element i of rank r is pattern(i) + r, in place: no second tensor is needed to know the sum.
template <typename T>
json run_big(Group& group, uint64_t count, const sumcast::Call& options) {
  // The middle of a product by an odd constant: neighbours, chunks and 2^31 apart all differ.
  const auto pattern = [](uint64_t i) {
    return static_cast<T>(static_cast<uint8_t>((i * 0x9E3779B97F4A7C15u) >> 29));
  };
  const auto rank = static_cast<T>(group.rank());
  std::vector<T> tensor(count);
  for (uint64_t i = 0; i < count; ++i) tensor[i] = static_cast<T>(pattern(i) + rank);
  const auto begun = std::chrono::steady_clock::now();
  json answer = answer_of(group.all_reduce(std::span(tensor), Reduction::kSum, options));
  answer["ms"] = milliseconds_since(begun);
  if (!answer["ok"]) return answer;
  const uint32_t size = group.size();
  const auto ranks = static_cast<T>(size * (size - 1) / 2);
  uint64_t wrong = 0, first_wrong = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const auto expected = static_cast<T>(pattern(i) * static_cast<T>(size) + ranks);
    if (tensor[i] == expected) continue;
    if (wrong++ == 0) first_wrong = i;
  }
  answer["ok"] = wrong == 0;
  answer["wrong"] = wrong;
  answer["first_wrong"] = first_wrong;
  answer["facts"] = process_facts();
  return answer;
}

json RankProgram::big(const Step& step) {
  Group& group = group_of(step);
  const uint64_t count = std::stoull(step.word(1));
  sumcast::Call options;
  options.algorithm = algorithm_from_name(step.text("algorithm", "auto")).value();
  if (step.word(0) == "u8") return run_big<uint8_t>(group, count, options);
  if (step.word(0) == "f32") return run_big<float>(group, count, options);
  throw std::invalid_argument(step.word(0));
}

}  // namespace sumcast::acceptance
