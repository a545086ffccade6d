// What every rank contributes, and what must come out: known to all from a seed, never sent.
//
// Two kinds of input. Where sums are canonical, random floats over the full range: signs,
// mantissas and, for one element in four, every finite exponent, so that order and rounding show.
// Where sums depend on the algorithm's order (ring, halving-doubling), small integers whose sums
// and products are exact in any order, as in nccl-tests' verifier. The expectation is always
// computed by the room `numeric` from all ranks' inputs: the canonical fold, for a reduced wire
// format with its own encoder, fold and decoder, so that bits can be compared in every case.
//
// The trick is that expectations are kept as one 64-bit digest per block, not as a tensor: with
// many ranks on one machine a third tensor each would not fit. A block whose digest differs is
// made again and compared element by element.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cli/bench_plan.h"

namespace sumcast::cli {

class BenchData {
 public:
  /// @param canonical  whether the algorithm's sums are the canonical fold.
  /// @param ranks_per_host  consecutive ranks that are added first (docs/numerics.md, N1); divides
  ///                        `world`.
  BenchData(const BenchCase& bench, bool canonical, uint32_t world, uint64_t seed,
            uint32_t ranks_per_host = 1);

  /// Elements that a rank contributes from and receives into: the API's buffers.
  uint64_t input_elements() const;
  uint64_t output_elements() const;

  /// Writes elements first .. first + count of what `rank` contributes; out: count elements.
  void fill(uint32_t rank, uint64_t first, uint64_t count, std::byte* out) const;

  /// Prepares for count_wrong on `rank`; reads all ranks' inputs once.
  void expect(uint32_t rank);
  /// Elements of `output` (output_elements() of them) whose bits differ from what `expect` found.
  uint64_t count_wrong(const std::byte* output) const;

 private:
  static constexpr uint64_t kBlockElements = 16 * 1024;  // Whole blocks of 256 of int8 and fixed.

  bool is_in_zero_piece(uint64_t base, uint64_t piece) const;
  void expect_block(uint64_t first, uint64_t count, std::byte* out) const;
  void reduce_block(uint64_t first, uint64_t count, std::byte* out) const;
  void reduce_encoded(uint64_t first, uint64_t count, std::byte* out) const;
  uint32_t hosts() const { return world_ / ranks_per_host_; }
  // bench_data_hosts.cc
  void reduce_tree(uint64_t first, uint64_t count, std::byte* out) const;
  /// What host `host` contributes in `carried`; an average is a sum here unless `divided`.
  void fill_host(uint32_t host, uint64_t first, uint64_t count, ElementType carried, bool divided,
                 std::byte* out) const;

  BenchCase bench_;
  bool canonical_;
  uint32_t world_;
  uint32_t ranks_per_host_;
  uint64_t seed_;
  uint32_t rank_ = 0;
  std::vector<uint64_t> digests_;
};

/// 64 bits that depend on every byte; not for adversaries.
uint64_t digest_of(const std::byte* data, size_t bytes);

}  // namespace sumcast::cli
