#include "acceptance/rank_program.h"

#include <stdexcept>
#include <thread>

namespace sumcast::acceptance {

using nlohmann::json;

json answer_of(const Result<void>& result) {
  if (result) return {{"ok", true}};
  return {{"ok", false},
          {"code", static_cast<int>(result.error().code)},
          {"error", result.error().what}};
}

json RankProgram::run(const Step& step) {
  const std::string& verb = step.verb();
  if (verb == "join") return join(step);
  if (verb == "facts") return process_facts();
  if (verb == "sleep") {
    std::this_thread::sleep_for(std::chrono::milliseconds(std::stoul(step.word(0))));
    return {{"ok", true}};
  }
  if (!context_) throw std::invalid_argument(verb + " before join");
  if (verb == "leave") {
    works_.clear();
    groups_.clear();
    context_.reset();
    return {{"ok", true}};
  }
  if (verb == "tag") {
    context_->set_tag(step.rest());
    return {{"ok", true}};
  }
  if (verb == "group") return open_group(step);
  if (verb == "close") return {{"ok", groups_.erase(step.word(0)) == 1}};
  if (verb == "barrier") return answer_of(group_of(step).barrier());
  if (verb == "loop") return loop(step);
  if (verb == "post") return post(step);
  if (verb == "wait") return wait(step);
  if (verb == "big") return big(step);
  if (verb == "swarm") return swarm(step);
  if (verb == "cycle") return cycle(step);
  if (verb == "small") return small(step);
  if (verb == "fill" || verb == "check") {
    if (!posted_) throw std::invalid_argument(verb + " before post");
    const auto byte = static_cast<std::byte>(std::stoul(step.word(0), nullptr, 0));
    if (verb == "fill") std::ranges::fill(posted_->out, byte);
    const auto strange = std::ranges::find_if(posted_->out, [=](auto b) { return b != byte; });
    return {{"ok", strange == posted_->out.end()}, {"at", strange - posted_->out.begin()}};
  }
  return reduce(step);
}

namespace {

Options options_of(const Step& step) {
  Options options;
  options.job = step.text("job", options.job);
  options.rank = static_cast<uint32_t>(step.number("rank", 0));
  options.world = static_cast<uint32_t>(step.number("world", 1));
  options.aggregator = step.text("aggregator");
  options.coordinator = step.text("coordinator");
  options.key_file = step.text("key");
  options.insecure = options.key_file.empty();
  options.one_rank_per_host = !step.has("share") && !ranks_share_hosts();
  const auto algorithm = algorithm_from_name(step.text("algorithm", "auto"));
  if (!algorithm) throw std::invalid_argument("algorithm=" + step.text("algorithm"));
  options.algorithm = *algorithm;
  options.timeout = std::chrono::milliseconds(step.number("timeout", 60'000));
  options.join_timeout = std::chrono::milliseconds(step.number("join_timeout", 60'000));
  options.interface = step.text("interface");
  options.tag = step.text("tag");
  options.mtu = static_cast<uint32_t>(step.number("mtu", options.mtu));
  options.faults.loss = step.real("loss", 0);
  options.faults.duplicate = step.real("dup", 0);
  options.faults.reorder = step.real("reorder", 0);
  options.faults.seed = step.number("seed", 1);
  return options;
}

}  // namespace

json RankProgram::join(const Step& step) {
  const auto begun = std::chrono::steady_clock::now();
  auto options = step.word(0) == "env" ? Options::from_environment() : options_of(step);
  if (!options) return answer_of(fail(options.error()));
  auto context = Context::create(*options);
  const auto took = std::chrono::steady_clock::now() - begun;
  json answer = context ? answer_of({}) : answer_of(fail(context.error()));
  answer["ms"] = std::chrono::duration_cast<std::chrono::milliseconds>(took).count();
  if (context) {
    context_ = std::move(*context);
    answer["rank"] = context_->rank();
    answer["size"] = context_->size();
    answer["payload_bytes"] = context_->payload_bytes();
  }
  return answer;
}

json RankProgram::open_group(const Step& step) {
  auto group = context_->new_group(numbers_in(step.word(1)), step.word(0));
  if (!group) return answer_of(fail(group.error()));
  json answer = {{"ok", true}, {"rank", group->rank()}, {"size", group->size()}};
  groups_.insert_or_assign(step.word(0), std::move(*group));
  return answer;
}

Group& RankProgram::group_of(const Step& step) {
  if (!step.has("group")) return context_->world();
  const auto found = groups_.find(step.text("group"));
  if (found == groups_.end()) throw std::invalid_argument("no group " + step.text("group"));
  return found->second;
}

}  // namespace sumcast::acceptance
