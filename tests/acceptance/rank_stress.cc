// Steps that press: many groups from many threads at once, groups without end, small operations.
#include <algorithm>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "acceptance/rank_program.h"
#include "base/prng.h"

namespace sumcast::acceptance {

using nlohmann::json;

namespace {

/// The members of group `g`: every second group lacks one rank, and orders are rotated.
std::vector<uint32_t> members_of(uint32_t g, uint32_t world) {
  std::vector<uint32_t> ranks;
  for (uint32_t i = 0; i < world; ++i) {
    const uint32_t rank = (i + g) % world;
    if (g % 2 == 0 || rank != (g / 2) % world || world < 3) ranks.push_back(rank);
  }
  return ranks;
}

template <typename T>
void shuffle(std::vector<T>& items, Prng& prng) {
  for (size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[prng.below(i)]);
}

/// A group under pressure and the operations it has open.
struct Pressed {
  uint32_t number = 0;
  Group* group = nullptr;
};

struct Open {
  Call call;
  Work work;
  std::string expected;
};

constexpr ElementType kTypes[] = {ElementType::kF32, ElementType::kI32, ElementType::kBF16,
                                  ElementType::kI8};

Call call_for(const Group& group, uint32_t number, uint64_t round) {
  Call call;
  call.type = kTypes[(number + round) % std::size(kTypes)];
  call.count = 1 + (number * 977 + round * 3571) % 9000;
  call.seed = number * 1000 + round;
  call.in =
      make_tensor(call.type, call.values, call.reduction, call.seed, group.rank(), call.count);
  call.out.assign(call.in.size(), kUntouched);
  return call;
}

/// `rounds` times: one operation on every group in an order of this rank's own, then a wait for all
/// of them in another order. So ranks hold the slots of one group while they wait for another.
Result<void> press(const std::vector<Pressed>& groups, uint64_t rounds, uint64_t seed) {
  Prng prng(seed);
  std::vector<Pressed> order = groups;
  for (uint64_t round = 0; round < rounds; ++round) {
    shuffle(order, prng);
    std::vector<Open> open;
    for (const Pressed& one : order) {
      Open next{call_for(*one.group, one.number, round), {}, {}};
      next.expected =
          sha256(all_reduce_reference(next.call.type, next.call.values, next.call.reduction,
                                      next.call.seed, one.group->size(), next.call.count));
      auto works = start_calls(*one.group, next.call);
      if (!works) return fail(works.error());
      next.work = std::move(works->front());
      open.push_back(std::move(next));
    }
    shuffle(open, prng);
    for (Open& one : open) {
      if (auto r = one.work.wait(); !r) return r;
      if (sha256(one.call.out) != one.expected) {
        return fail(ErrorCode::kInternal, "a sum is wrong, seed " + std::to_string(one.call.seed));
      }
    }
  }
  return {};
}

}  // namespace

json RankProgram::swarm(const Step& step) {
  const auto group_count = static_cast<uint32_t>(step.number("groups", 8));
  const auto thread_count = static_cast<uint32_t>(step.number("threads", 4));
  const uint64_t rounds = step.number("rounds", 20);
  std::vector<Group> mine;  // Handles that keep the groups open.
  std::vector<uint32_t> numbers;
  for (uint32_t g = 0; g < group_count; ++g) {
    const auto ranks = members_of(g, context_->size());
    if (std::ranges::find(ranks, context_->rank()) == ranks.end()) continue;
    auto group = context_->new_group(ranks, "swarm" + std::to_string(g));
    if (!group) return answer_of(fail(group.error()));
    mine.push_back(std::move(*group));
    numbers.push_back(g);
  }
  std::vector<std::thread> threads;
  std::mutex mutex;
  Result<void> outcome;
  for (uint32_t t = 0; t < thread_count; ++t) {
    threads.emplace_back([&, t] {
      std::vector<Pressed> pressed;
      for (size_t i = 0; i < mine.size(); ++i) {
        if (numbers[i] % thread_count == t) pressed.push_back({numbers[i], &mine[i]});
      }
      auto result = press(pressed, rounds, step.number("seed", 1) + context_->rank() * 100 + t);
      const std::lock_guard lock(mutex);
      if (!result && outcome) outcome = std::move(result);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return answer_of(outcome);
}

json RankProgram::cycle(const Step& step) {
  const uint64_t count = step.number("count", 100);
  const uint64_t first = step.number("first", 0);
  std::vector<uint32_t> all(context_->size());
  for (uint32_t i = 0; i < all.size(); ++i) all[i] = i;
  for (uint64_t i = 0; i < count; ++i) {
    auto group = context_->new_group(all, "cycle" + std::to_string(first + i));
    if (!group) return answer_of(fail(group.error()));
    std::vector<int32_t> data(100 + i % 1000, static_cast<int32_t>(i));
    if (auto r = group->all_reduce(std::span(data)); !r) return answer_of(r);
    if (data.back() != static_cast<int32_t>(i * all.size())) {
      return answer_of(fail(ErrorCode::kInternal, "a sum is wrong"));
    }
  }
  return process_facts();
}

json RankProgram::small(const Step& step) {
  Prng prng(step.number("seed", 1));  // The same sizes on all ranks.
  std::vector<float> data;
  for (uint64_t i = 0; i < step.number("count", 1000); ++i) {
    data.assign(1 + prng.below(5000), 1.0f);
    if (auto r = context_->world().all_reduce(std::span(data)); !r) return answer_of(r);
    if (data.back() != static_cast<float>(context_->size())) {
      return answer_of(fail(ErrorCode::kInternal, "a sum is wrong"));
    }
  }
  return process_facts();
}

}  // namespace sumcast::acceptance
