#include "pipeline/encoder.h"

#include <algorithm>

#include "base/assert.h"
#include "numeric/codec.h"
#include "pipeline/values.h"

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

}  // namespace

std::unique_ptr<Encoder> make_wire_encoder(WireFormat format) {
  if (format == WireFormat::kNative || format == WireFormat::kFixed) return nullptr;
  return std::make_unique<WireEncoder>(format);
}

Result<void> Encoder::add_message(std::span<const std::byte>, std::span<float>) const {
  return fail(ErrorCode::kInvalidArgument, name() + " sends no messages");
}

void Feedback::encode(Encoder& encoder, uint64_t step, uint32_t rank, std::span<float> values) {
  SUMCAST_ASSERT(values.size() == residual_.size());
  sent_.resize(values.size());
  const size_t count = values.size();
  float *const residual = residual_.data(), *const value = values.data();
  for (size_t i = 0; i < count; ++i) value[i] += residual[i];
  encoder.encode(values, step, rank, sent_);
  const float* const sent = sent_.data();
#pragma GCC ivdep
  for (size_t i = 0; i < count; ++i) {
    const float owed = value[i] - sent[i];
    residual[i] = finite_or_zero(owed);
    value[i] = sent[i];
  }
}

}  // namespace sumcast::pipeline
