#include "control/frames.h"

#include <algorithm>

namespace sumcast::control {

namespace {

constexpr std::string_view kDigits = "0123456789abcdef";

}  // namespace

std::vector<std::byte> FrameSeal::wrap(std::string_view body) {
  const auto bytes = std::as_bytes(std::span(body));
  std::vector<std::byte> frame;
  frame.reserve(bytes.size() + auth::kSealBytes);
  if (seal_) {
    const auth::SealTag tag = seal_->seal(bytes);
    frame.assign(tag.begin(), tag.end());
  }
  frame.insert(frame.end(), bytes.begin(), bytes.end());
  return frame;
}

std::optional<std::string_view> FrameSeal::unwrap(std::span<const std::byte> frame) {
  if (seal_) {
    if (frame.size() < auth::kSealBytes) return std::nullopt;
    const auto tag = frame.first<auth::kSealBytes>();
    frame = frame.subspan(auth::kSealBytes);
    if (!seal_->open(frame, tag)) return std::nullopt;
  }
  return std::string_view(reinterpret_cast<const char*>(frame.data()), frame.size());
}

std::string nonce_text(const auth::ControlNonce& nonce) {
  std::string text;
  for (const std::byte byte : nonce) {
    text += kDigits[std::to_integer<size_t>(byte) >> 4];
    text += kDigits[std::to_integer<size_t>(byte) & 15];
  }
  return text;
}

std::optional<auth::ControlNonce> nonce_from_text(std::string_view text) {
  auth::ControlNonce nonce;
  if (text.size() != 2 * nonce.size()) return std::nullopt;
  for (size_t i = 0; i < nonce.size(); ++i) {
    const size_t high = kDigits.find(text[2 * i]);
    const size_t low = kDigits.find(text[2 * i + 1]);
    if (high == kDigits.npos || low == kDigits.npos) return std::nullopt;
    nonce[i] = static_cast<std::byte>(high << 4 | low);
  }
  return nonce;
}

}  // namespace sumcast::control
