// Lossy gradients: what a rank sends in place of what it has, and what it owes.
//
// An encoder turns the wanted values into values that can be sent in few bytes, and gives them back
// *decoded*: that is what enters the sum, and what everything else must count as this rank's share.
// The difference is the residual, which error feedback adds to the next gradient. For the library's
// own wire types the library encodes again on the way out, which changes nothing any more
// (encoding is idempotent; encoder_test says so).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/element.h"
#include "base/result.h"

namespace sumcast::pipeline {

class Encoder {
 public:
  virtual ~Encoder() = default;
  virtual std::string name() const = 0;
  /// Writes to `sent` what the receivers will decode of `wanted`, of equal length, which may be the
  /// same memory. `step` and `rank` seed what is random.
  virtual void encode(std::span<const float> wanted, uint64_t step, uint32_t rank,
                      std::span<float> sent) = 0;
  /// Bytes that so many elements take on the way up.
  virtual double bytes(size_t count) const = 0;
  /// Whether an unsent rest should be added to the next gradient (biased encoders).
  virtual bool wants_feedback() const = 0;

  /// Of encoders whose values are not summed on their way (top-k, QSGD): what travels in place of
  /// the values of the last encode(), bytes(count) long; valid until the next. Every rank
  /// gets every rank's and adds them up itself. Empty for all others.
  virtual std::span<const std::byte> message() const { return {}; }
  /// Adds to `sum` what the message of any rank's encoder of this kind stands for: the bits that
  /// its encode() gave out as sent. kInvalidArgument, with `sum` in an unknown state, if it is none
  /// for so many values: it comes from outside.
  virtual Result<void> add_message(std::span<const std::byte> message, std::span<float> sum) const;
};

/// The library's wire types: bf16, fp16, int8. (kNative loses nothing and kFixed rounds by what all
/// ranks have: neither has an encoder; null is returned.)
std::unique_ptr<Encoder> make_wire_encoder(WireFormat format);

/// The `share` (0..1] of elements that are largest in magnitude, as 32-bit index and value; all
/// others are zero and owed (Lin et al. 2018, Stich et al. 2018). At least one element.
std::unique_ptr<Encoder> make_top_k_encoder(double share);

/// Unbiased stochastic rounding to `levels` (1..127) levels of each bucket's Euclidean norm, a
/// byte an element (Alistarh et al. 2017). Buckets of 512; all of one that holds a value which is
/// not finite becomes NaN.
std::unique_ptr<Encoder> make_qsgd_encoder(int levels);

/// Adds a residual before and takes it after: wanted = values + residual, residual = wanted - sent.
/// What is not finite is sent as it is and never owed.
class Feedback {
 public:
  explicit Feedback(size_t count) : residual_(count, 0.0f) {}
  /// `values` becomes what is sent.
  void encode(Encoder& encoder, uint64_t step, uint32_t rank, std::span<float> values);
  /// What is owed; saved and restored with a checkpoint.
  std::span<float> residual() { return residual_; }
  std::span<const float> residual() const { return residual_; }

 private:
  std::vector<float> residual_;
  std::vector<float> sent_;
};

}  // namespace sumcast::pipeline
