#include "pipeline/encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/assert.h"
#include "base/prng.h"
#include "numeric/codec.h"

namespace sumcast::pipeline {
namespace {

class WireEncoder final : public Encoder {
 public:
  explicit WireEncoder(WireFormat format) : format_(format) {}
  std::string name() const override { return std::string(name_of(format_)); }
  bool wants_feedback() const override { return true; }
  double bytes(size_t count) const override {
    return static_cast<double>(numeric::payload_bytes(ElementType::kF32, format_, count));
  }
  void encode(std::span<const float> wanted, uint64_t, uint32_t, std::span<float> sent) override {
    SUMCAST_ASSERT(wanted.size() == sent.size());
    payload_.resize(numeric::payload_bytes(ElementType::kF32, format_, wanted.size()));
    numeric::encode(format_, wanted.data(), wanted.size(), payload_.data());
    numeric::decode(format_, payload_.data(), sent.size(), sent.data());
  }

 private:
  WireFormat format_;
  std::vector<std::byte> payload_;
};

class TopKEncoder final : public Encoder {
 public:
  explicit TopKEncoder(double share) : share_(share) {}
  std::string name() const override { return fmt::format("top-{:.3g}%", share_ * 100); }
  bool wants_feedback() const override { return true; }
  double bytes(size_t count) const override { return 8.0 * static_cast<double>(kept(count)); }
  void encode(std::span<const float> wanted, uint64_t, uint32_t, std::span<float> sent) override {
    SUMCAST_ASSERT(wanted.size() == sent.size());
    if (wanted.empty()) return;
    const size_t keep = kept(wanted.size());
    magnitudes_.resize(wanted.size());
    // NaN counts as largest: it must travel, not hide.
    for (size_t i = 0; i < wanted.size(); ++i) {
      magnitudes_[i] = std::isnan(wanted[i]) ? INFINITY : std::fabs(wanted[i]);
    }
    const auto place = magnitudes_.begin() + static_cast<ptrdiff_t>(keep - 1);
    std::nth_element(magnitudes_.begin(), place, magnitudes_.end(), std::greater<>());
    const float threshold = *place;
    // Of elements equal to the threshold the first ones are kept, so that exactly `keep` are.
    auto above = std::count_if(wanted.begin(), wanted.end(), [&](float v) {
      return std::isnan(v) ? !std::isinf(threshold) : std::fabs(v) > threshold;
    });
    size_t equal_left = keep - static_cast<size_t>(above);
    for (size_t i = 0; i < wanted.size(); ++i) {
      const float magnitude = std::isnan(wanted[i]) ? INFINITY : std::fabs(wanted[i]);
      bool keeps = magnitude > threshold;
      if (magnitude == threshold && equal_left > 0) {
        keeps = true;
        --equal_left;
      }
      sent[i] = keeps ? wanted[i] : 0.0f;
    }
  }

 private:
  size_t kept(size_t count) const {
    const auto wished = static_cast<size_t>(std::ceil(share_ * static_cast<double>(count)));
    return std::clamp<size_t>(wished, 1, std::max<size_t>(count, 1));
  }

  double share_;
  std::vector<float> magnitudes_;
};

class QsgdEncoder final : public Encoder {
 public:
  explicit QsgdEncoder(int levels) : levels_(static_cast<float>(levels)) {}
  std::string name() const override { return fmt::format("qsgd-{}", static_cast<int>(levels_)); }
  bool wants_feedback() const override { return false; }
  double bytes(size_t count) const override {
    const size_t buckets = (count + kBucket - 1) / kBucket;
    return static_cast<double>(count + 4 * buckets);
  }
  void encode(std::span<const float> wanted, uint64_t step, uint32_t rank,
              std::span<float> sent) override {
    SUMCAST_ASSERT(wanted.size() == sent.size());
    Prng prng(Prng(step).next_u64() ^ Prng(~uint64_t{rank}).next_u64());
    for (size_t first = 0; first < wanted.size(); first += kBucket) {
      const size_t count = std::min(kBucket, wanted.size() - first);
      encode_bucket(wanted.subspan(first, count), prng, sent.subspan(first, count));
    }
  }

 private:
  static constexpr size_t kBucket = 512;

  void encode_bucket(std::span<const float> wanted, Prng& prng, std::span<float> sent) const {
    double squares = 0;
    for (const float value : wanted) squares += static_cast<double>(value) * value;
    const auto norm = static_cast<float>(std::sqrt(squares));
    if (norm == 0.0f || !std::isfinite(norm)) {
      std::copy(wanted.begin(), wanted.end(), sent.begin());
      return;
    }
    for (size_t i = 0; i < wanted.size(); ++i) {
      const float scaled = std::fabs(wanted[i]) / norm * levels_;
      const float below = std::floor(scaled);
      const float level = below + (prng.unit() < static_cast<double>(scaled - below) ? 1.0f : 0.0f);
      sent[i] = std::copysign(norm * level / levels_, wanted[i]);
    }
  }

  float levels_;
};

}  // namespace

std::unique_ptr<Encoder> make_wire_encoder(WireFormat format) {
  if (format == WireFormat::kNative || format == WireFormat::kFixed) return nullptr;
  return std::make_unique<WireEncoder>(format);
}

std::unique_ptr<Encoder> make_top_k_encoder(double share) {
  SUMCAST_ASSERT(share > 0 && share <= 1);
  return std::make_unique<TopKEncoder>(share);
}

std::unique_ptr<Encoder> make_qsgd_encoder(int levels) {
  SUMCAST_ASSERT(levels >= 1 && levels <= 127);
  return std::make_unique<QsgdEncoder>(levels);
}

void Feedback::encode(Encoder& encoder, uint64_t step, uint32_t rank, std::span<float> values) {
  SUMCAST_ASSERT(values.size() == residual_.size());
  sent_.resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) values[i] += residual_[i];
  encoder.encode(values, step, rank, sent_);
  for (size_t i = 0; i < values.size(); ++i) {
    const float owed = values[i] - sent_[i];
    residual_[i] = std::isfinite(owed) ? owed : 0.0f;
    values[i] = sent_[i];
  }
}

}  // namespace sumcast::pipeline
