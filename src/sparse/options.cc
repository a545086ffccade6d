#include "sparse/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "numeric/codec.h"
#include "numeric/rows.h"
#include "sparse/frames.h"

namespace sumcast::sparse {
namespace {

/// Measured (docs/perf-notes.md): with more in a message, links wait for servers; with less,
/// processors handle messages.
constexpr double kSegmentBytes = 24 << 10;
constexpr double kSegmentsAuto = 32;

}  // namespace

Result<void> Options::validate() const {
  if (workers == 0 || servers == 0) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("sparse: {} workers and {} servers; at least one of each is needed",
                            workers, servers));
  }
  if (segments == 0 || segments > kSegmentsMax) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("sparse: {} segments; 1 to {} are possible", segments, kSegmentsMax));
  }
  if (!numeric::carries_rows(wire) || !numeric::carries_rows(row_wire)) {
    return fail(ErrorCode::kInvalidArgument,
                "sparse: wire format fixed does not carry rows; native, bf16, fp16 and int8 do");
  }
  if (staleness > kStalenessMax) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("sparse: staleness {}; 0 to {} are possible", staleness, kStalenessMax));
  }
  if (shape.life.admit_after != 0 && candidates_max == 0) {
    return fail(ErrorCode::kInvalidArgument,
                "sparse: keys are to be counted before they get rows, but none may be");
  }
  if (restore && checkpoint_directory.empty()) {
    return fail(ErrorCode::kInvalidArgument, "sparse: a checkpoint to take up, but no directory");
  }
  if (auto fine = shape.validate(); !fine) return fine;
  return restore ? check_shape(*restore, shape) : Result<void>();
}

uint32_t segments_for(double rows, uint32_t servers, const table::TableShape& shape,
                      WireFormat wire) {
  const double gradient =
      static_cast<double>(numeric::payload_bytes(ElementType::kF32, wire, shape.width));
  const double bytes = rows / servers * (sizeof(uint64_t) + gradient);
  return static_cast<uint32_t>(std::clamp(std::ceil(bytes / kSegmentBytes), 1.0, kSegmentsAuto));
}

uint64_t Options::fingerprint() const {
  const table::Optimizer& o = shape.optimizer;
  const uint64_t fields[] = {body_rows_max,
                             candidates_max,
                             shape.rows_max,
                             shape.life.admit_after,
                             shape.life.evict_after,
                             workers,
                             servers,
                             segments,
                             staleness,
                             asynchronous ? 1u : 0u,
                             static_cast<uint64_t>(wire),
                             static_cast<uint64_t>(row_wire),
                             shape.width,
                             shape.seed,
                             std::bit_cast<uint32_t>(shape.init_scale),
                             static_cast<uint64_t>(o.kind),
                             std::bit_cast<uint32_t>(o.rate),
                             std::bit_cast<uint32_t>(o.momentum),
                             std::bit_cast<uint32_t>(o.beta1),
                             std::bit_cast<uint32_t>(o.beta2),
                             std::bit_cast<uint32_t>(o.epsilon),
                             std::bit_cast<uint32_t>(o.beta),
                             std::bit_cast<uint32_t>(o.l1),
                             std::bit_cast<uint32_t>(o.l2),
                             std::bit_cast<uint32_t>(o.initial),
                             checkpoint_directory.empty() ? 0u : 1u,
                             restore ? sparse::fingerprint(*restore) : 0};
  uint64_t hash = 0;
  for (const uint64_t field : fields) hash = table::hash_with(hash, field);
  return hash;
}

}  // namespace sumcast::sparse
