// What the bench's peers have in common: arguments, data with known answers, timing, and the line
// that the driver reads. A library's own program (gloo_main.cc, mpi_main.cc) supplies a Peer.
//
// Knows nothing of Sumcast: a peer is measured from its own API, in its own process.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace sumcast::peers {

enum class Collective { kAllReduce, kReduce, kBroadcast, kAllGather, kReduceScatter, kBarrier };

/// The command line. Ranks must agree on all but `rank` and `address`.
struct Arguments {
  int rank = -1;               ///< gloo; MPI knows its own.
  int world = -1;              ///< gloo; MPI knows its own, and compares if given.
  std::string root_directory;  ///< gloo: where ranks find each other; empty at start.
  std::string interface;       ///< gloo: of this rank. This or `address`.
  std::string address;
  std::vector<size_t> sizes = {8, 4096, 26214400};
  int iterations = 10;
  int warmup = 2;
  int block = 1;  ///< Operations back to back in one timed iteration; above 1 without `check`.
  Collective collective = Collective::kAllReduce;
  bool check = true;
  bool step = false;
  /// MPI: nonblocking operations and yields instead of the library's own way to wait. Unset: the
  /// better one for the library.
  std::optional<bool> yield;
  std::string algorithm = "auto";
};

/// Buffers of one collective, float32. `block` is a rank's part for all-gather (in `input`) and
/// reduce-scatter (of the result); `elements` is the length of the whole.
///
///   all_reduce      output[elements], in place
///   reduce          input[elements] -> output[elements] at rank 0
///   broadcast       output[elements], from rank 0
///   all_gather      input[block] -> output[elements = block * world]
///   reduce_scatter  input[elements = block * world] -> result[block], see Peer::result
struct Buffers {
  std::vector<float> input;
  std::vector<float> output;
  size_t elements = 0;
  size_t block = 0;
};

/// One library. Construction connects; errors are exceptions, which end the program.
class Peer {
 public:
  virtual ~Peer() = default;

  virtual int rank() const = 0;
  virtual int world() const = 0;
  /// Called once per size, before its first run: the place for what a library builds once.
  virtual void prepare(Collective collective, Buffers& buffers) = 0;
  /// One collective operation: what is timed.
  virtual void run(Collective collective, Buffers& buffers) = 0;
  /// Where the result is after a run: a pointer into `buffers`.
  virtual const float* result(Collective, const Buffers& buffers) const {
    return buffers.output.data();
  }
  virtual void barrier() = 0;
  /// Replaces each value by the maximum over all ranks.
  virtual void maximum(std::vector<double>& values) = 0;
};

/// Parses the command line. Prints what is wrong, or the help, and exits if that is all there is
/// to do.
Arguments parse_arguments(int argc, char** argv);

/// Measures all sizes. Rank 0 prints one JSON object per line and size. Returns the exit code: 0,
/// or 1 if any element was wrong.
int run_peer(const char* name, const Arguments& arguments, Peer& peer);

}  // namespace sumcast::peers
