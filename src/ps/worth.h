// Whether summing on the way pays, as the sums that have left tell: rows that went into them for
// each row that came out, the fan-in.
//
// Where it is small (keys that nobody shares, workers that push at other times than the others) the
// detour costs more than it saves, and pushes go straight; but a few of every kPeriod try again.
// All workers count their pushes alike, so those who go in step try together.
//
// Pure. For one thread at a time.
#pragma once

#include <cstdint>

namespace sumcast::ps {

class Worth {
 public:
  /// Asked once for each push: whether this one is to be cut.
  bool next() { return pushes_++ % kPeriod < kTries || pays(); }

  /// A sum has left that this worker had a part in.
  void on_sum(double rows_in, double rows_out) {
    in_ = kKept * in_ + rows_in;
    out_ = kKept * out_ + rows_out;
  }

  bool pays() const { return in_ >= kFanInMin * out_; }

 private:
  static constexpr double kFanInMin = 1.2, kKept = 0.75;
  static constexpr uint64_t kPeriod = 64, kTries = 4;

  double in_ = 0, out_ = 0;
  uint64_t pushes_ = 0;
};

}  // namespace sumcast::ps
