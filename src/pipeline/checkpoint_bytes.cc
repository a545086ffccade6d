#include "pipeline/checkpoint_bytes.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/prng.h"

namespace sumcast::pipeline {
namespace {

static_assert(std::endian::native == std::endian::little, "checkpoints are little endian");

uint64_t hash_of(std::span<const std::byte> bytes) {
  uint64_t hash = bytes.size();
  for (size_t i = 0; i < bytes.size(); i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, std::min<size_t>(8, bytes.size() - i));
    hash = Prng(hash ^ word).next_u64();
  }
  return hash;
}

}  // namespace

void CheckpointWriter::bytes(const void* data, size_t count) {
  const auto* const from = static_cast<const std::byte*>(data);
  out_.insert(out_.end(), from, from + count);
}

void CheckpointWriter::number(uint64_t value) { bytes(&value, sizeof value); }
void CheckpointWriter::real(double value) { bytes(&value, sizeof value); }

void CheckpointWriter::text(std::string_view value) {
  number(value.size());
  bytes(value.data(), value.size());
}

void CheckpointWriter::floats(std::span<const float> values) {
  number(values.size());
  bytes(values.data(), values.size_bytes());
}

std::vector<std::byte> CheckpointWriter::finish() && {
  number(hash_of(out_));
  return std::move(out_);
}

CheckpointReader::CheckpointReader(std::span<const std::byte> bytes) : left_(bytes) {
  uint64_t hash = 0;
  if (bytes.size() < sizeof hash) {
    refuse("it is cut short");
    return;
  }
  left_ = bytes.first(bytes.size() - sizeof hash);
  std::memcpy(&hash, bytes.data() + left_.size(), sizeof hash);
  if (hash != hash_of(left_)) refuse("it is cut short or damaged");
}

bool CheckpointReader::take(void* to, size_t count) {
  if (!failed() && left_.size() < count) refuse("it is cut short");
  if (failed()) {
    std::memset(to, 0, count);
    return false;
  }
  std::memcpy(to, left_.data(), count);
  left_ = left_.subspan(count);
  return true;
}

uint64_t CheckpointReader::number() {
  uint64_t value = 0;
  take(&value, sizeof value);
  return value;
}

double CheckpointReader::real() {
  double value = 0;
  take(&value, sizeof value);
  return value;
}

std::string CheckpointReader::text() {
  const uint64_t count = number();
  if (count > left_.size()) refuse("it is cut short");
  if (failed()) return {};
  std::string value(count, '\0');
  take(value.data(), count);
  return value;
}

std::vector<float> CheckpointReader::floats(size_t count) {
  const uint64_t held = number();
  if (!failed() && held != count) refuse("it is of another model");
  if (!failed() && left_.size() / sizeof(float) < count) refuse("it is cut short");
  if (failed()) return {};
  std::vector<float> values(count);
  take(values.data(), count * sizeof(float));
  return values;
}

void CheckpointReader::refuse(std::string why) {
  if (error_.empty()) error_ = std::move(why);
}

Result<void> CheckpointReader::finish() {
  if (!failed() && !left_.empty()) refuse("it holds more than it should");
  if (!failed()) return {};
  return fail(ErrorCode::kInvalidArgument, "not a checkpoint that can be taken up: " + error_);
}

}  // namespace sumcast::pipeline
