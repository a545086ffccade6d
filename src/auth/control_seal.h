// Seals the frames of a TCP control connection, so that only holders of the job's key take part.
//
//   client -> server   32 random bytes          server -> client   32 random bytes
//   both               one key per direction from the job key and both nonces (auth/derive.h)
//   every frame        tag = HMAC-SHA256(key, direction 1 | sequence 8 | body), first 16 bytes
//
// Each side's nonce is the challenge to the other: the first frame that opens proves that its
// sender holds the job key *now*. TCP delivers in order, so the sequence number need not travel:
// both ends count, and a frame that was replayed, dropped, reordered or reflected does not open.
// It does not know frames' contents or lengths; the framing is net/, the meaning is control/.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "auth/derive.h"
#include "auth/secret.h"

struct evp_mac_ctx_st;  // OpenSSL's

namespace sumcast::auth {

inline constexpr size_t kSealBytes = 16;
using SealTag = std::array<std::byte, kSealBytes>;

/// The tag of a frame that is taken part by part, as its bytes come or go.
class FrameTag {
 public:
  /// The next bytes of the frame.
  void add(std::span<const std::byte> part);

 private:
  friend class ControlSeal;
  struct Deleter {
    void operator()(evp_mac_ctx_st* context) const;
  };
  using Context = std::unique_ptr<evp_mac_ctx_st, Deleter>;

  explicit FrameTag(Context context) : context_(std::move(context)) {}
  SealTag finish();

  Context context_;
};

/// One end of one connection. Sending and receiving may be two threads' work, each one's alone.
class ControlSeal {
 public:
  /// @param side  which end this is; the other end's seal must have the other side.
  ControlSeal(const Key& job, const ControlNonce& client, const ControlNonce& server, Side side);

  /// The tag of the next frame sent. Frames must go out in the order in which they were sealed.
  SealTag seal(std::span<const std::byte> body);

  /// Whether `body` is the peer's next frame. After a false the connection is of no more use:
  /// the caller closes it. Only a frame that opens advances the sequence.
  [[nodiscard]] bool open(std::span<const std::byte> body, std::span<const std::byte, 16> tag);

  /// The same for bodies of which not all is at hand at once: begin, add() all of it in order, then
  /// seal or open. Of each direction one at a time.
  FrameTag begin_seal() const { return send_.begin(); }
  SealTag seal(FrameTag frame);
  FrameTag begin_open() const { return receive_.begin(); }
  [[nodiscard]] bool open(FrameTag frame, std::span<const std::byte, 16> tag);

 private:
  /// One direction of the connection.
  struct Lane {
    Key key;
    Side sender;
    uint64_t sequence = 0;

    FrameTag begin() const;
  };

  Lane send_;
  Lane receive_;
};

}  // namespace sumcast::auth
