// The role of a bench worker that runs operations of the public API.
//
//   out of place   input[1]  ->  results[operations]         every operation has its own result,
//   in place       results[operations], inputs copied there  so that every one can be checked
#include <cstring>
#include <vector>

#include "base/assert.h"
#include "cli/bench_data.h"
#include "cli/bench_worker.h"

namespace sumcast::cli {
namespace {

constexpr int kPoison = 0xA5;

class ContextRole final : public WorkerRole {
 public:
  ContextRole(const WorkerOptions& options, Algorithm algorithm, std::unique_ptr<Context> context)
      : options_(options), context_(std::move(context)) {
    spec_.algorithm = algorithm;
  }

  uint32_t payload_bytes() const override { return context_->payload_bytes(); }
  uint64_t retransmits() const override { return context_->counters().retransmits; }

  Result<void> set_case(const BenchCase& bench) override;
  void fill(bool in_place) override;
  Result<void> run() override;
  uint64_t count_wrong() const override;

 private:
  size_t width() const { return element_bytes(bench_.type); }
  uint32_t rank() const { return options_.library.rank; }
  /// Bytes before this rank's part of the whole tensor.
  size_t part_offset() const { return rank() * bench_.count * width(); }
  std::byte* region(uint32_t operation) {
    return results_.data() + shift_ + operation * region_bytes_;
  }
  const std::byte* region(uint32_t operation) const {
    return results_.data() + shift_ + operation * region_bytes_;
  }
  const std::byte* input_of(uint32_t operation);
  std::byte* output_of(uint32_t operation);
  Result<void> run_one(uint32_t operation);

  WorkerOptions options_;
  ContenderSpec spec_;
  std::unique_ptr<Context> context_;
  BenchCase bench_;
  std::optional<BenchData> data_;
  std::vector<std::byte> input_, results_;
  size_t shift_ = 0;  ///< Of all buffers, `-u`.
  size_t input_bytes_ = 0;
  size_t region_bytes_ = 0;  ///< Room for the larger of input and output.
  bool in_place_ = false;
};

Result<void> ContextRole::set_case(const BenchCase& bench) {
  bench_ = bench;
  data_.emplace(bench, spec_.is_canonical(), options_.library.world, options_.seed,
                options_.ranks_per_host);
  shift_ = options_.unalign * width();
  input_bytes_ = data_->input_elements() * width();
  region_bytes_ = std::max(data_->input_elements(), data_->output_elements()) * width();
  input_.resize(shift_ + input_bytes_);
  results_.resize(shift_ + region_bytes_ * bench.operations);
  data_->fill(rank(), 0, data_->input_elements(), input_.data() + shift_);
  if (options_.check && bench.collective != Collective::kBarrier) data_->expect(rank());
  return {};
}

void ContextRole::fill(bool in_place) {
  in_place_ = in_place;
  for (uint32_t i = 0; i < bench_.operations; ++i) {
    // The poison makes an element that nobody wrote a wrong one.
    if (options_.check) std::memset(region(i), kPoison, region_bytes_);
    const bool contributes = bench_.collective != Collective::kBroadcast || rank() == bench_.root;
    if (!in_place || !contributes) continue;
    const size_t offset = bench_.collective == Collective::kAllGather ? part_offset() : 0;
    std::memcpy(region(i) + offset, input_.data() + shift_, input_bytes_);
  }
}

const std::byte* ContextRole::input_of(uint32_t operation) {
  if (!in_place_) return input_.data() + shift_;
  return region(operation) + (bench_.collective == Collective::kAllGather ? part_offset() : 0);
}

std::byte* ContextRole::output_of(uint32_t operation) {
  const bool part = in_place_ && bench_.collective == Collective::kReduceScatter;
  return region(operation) + (part ? part_offset() : 0);
}

Result<void> ContextRole::run_one(uint32_t operation) {
  Group& group = context_->world();
  Call call;
  call.algorithm = spec_.algorithm;
  if (spec_.is_canonical()) call.wire = bench_.wire;
  const std::byte* const in = input_of(operation);
  std::byte* const out = output_of(operation);
  const uint64_t count = bench_.count;
  switch (bench_.collective) {
    case Collective::kAllReduce:
      return group.all_reduce(in, out, count, bench_.type, bench_.reduction, call);
    case Collective::kReduce:
      return group.reduce(in, out, count, bench_.type, bench_.reduction, bench_.root, call);
    case Collective::kBroadcast:
      return group.broadcast(out, count, bench_.type, bench_.root, call);
    case Collective::kAllGather:
      return group.all_gather(in, out, count, bench_.type, call);
    case Collective::kReduceScatter:
      return group.reduce_scatter(in, out, count, bench_.type, bench_.reduction, call);
    case Collective::kBarrier:
      break;
  }
  return group.barrier(call);
}

Result<void> ContextRole::run() {
  for (uint32_t i = 0; i < bench_.operations; ++i) {
    if (Result<void> done = run_one(i); !done) return done;
  }
  return {};
}

uint64_t ContextRole::count_wrong() const {
  const bool has_result = bench_.collective != Collective::kBarrier &&
                          (bench_.collective != Collective::kReduce || rank() == bench_.root);
  if (!options_.check || !has_result) return 0;
  const bool part = in_place_ && bench_.collective == Collective::kReduceScatter;
  uint64_t wrong = 0;
  for (uint32_t i = 0; i < bench_.operations; ++i) {
    wrong += data_->count_wrong(region(i) + (part ? part_offset() : 0));
  }
  return wrong;
}

}  // namespace

Result<std::unique_ptr<WorkerRole>> make_context_role(const WorkerOptions& options) {
  const std::optional<Algorithm> algorithm = algorithm_from_name(options.algorithm);
  if (!algorithm) {
    return fail(ErrorCode::kInvalidArgument, "unknown algorithm " + options.algorithm);
  }
  Options library = options.library;
  library.algorithm = *algorithm;
  Result<std::unique_ptr<Context>> context = Context::create(library);
  if (!context) return fail(context.error());
  return std::make_unique<ContextRole>(options, *algorithm, std::move(*context));
}

}  // namespace sumcast::cli
