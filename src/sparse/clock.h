// What a worker's rows contain: the rules of bounded staleness (P20), and nothing else.
//
// A worker reads rows for step c, trains, and gives the gradients of step c. It may ask for rows
// ahead of their turn: each batch comes with everything up to the step that was given last when it
// was asked for, and waits until the batches before it had their turn.
//
//   calls             pull(A)  announce(B)  push_pull(a, C)  push_pull(b, D)
//   asked for with       0          0             1                2
//   current, of step     1                   B, of step 2     C, of step 3
//   contains             0                        0                1
//
// With `staleness` batches ahead, what is current for step c contains exactly the steps up to
// c - 1 - staleness: neither less nor more, however fast the others are. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

namespace sumcast::sparse {

class Clock {
 public:
  explicit Clock(uint32_t staleness) : staleness_(staleness) {}

  /// The step that the current rows are for.
  uint64_t now() const { return given_ + 1; }
  /// Steps whose gradients were given.
  uint64_t given() const { return given_; }
  /// Steps that the current rows contain, the first so many.
  uint64_t seen() const { return seen_; }
  /// Batches asked for whose turn has not come.
  size_t ahead() const { return ahead_.size(); }

  /// May another batch be asked for without gradients?
  bool may_announce() const { return ahead_.size() < staleness_; }
  void on_announce() { ahead_.push_back(given_); }
  /// Gradients of the current rows are given, and a batch is asked for.
  void on_push() {
    ++given_;
    ahead_.push_back(given_);
  }
  /// The oldest batch becomes the current one. @pre ahead() != 0.
  void on_turn() {
    seen_ = ahead_.front();
    ahead_.pop_front();
  }
  /// All batches are forgotten; rows are read anew when all steps have moved them.
  void on_reset() {
    ahead_.clear();
    seen_ = given_;
  }

 private:
  uint32_t staleness_;
  uint64_t given_ = 0, seen_ = 0;
  std::deque<uint64_t> ahead_;  // With what each was asked for.
};

}  // namespace sumcast::sparse
