// An MPI library as a peer. Compiled once per library; SUMCAST_PEER_NAME says which.
//
// Algorithms are chosen outside, by the launcher (src/lab/mpi_launch.h): MPI has no call for it.
//
// Both libraries wait by spinning, and with more ranks than processors ranks then steal each
// other's time. Open MPI yields when told to (mpi_yield_when_idle). Debian's MPICH has no yield in
// it, so its peer starts the nonblocking form of an operation, tests it and yields in between: with
// 4 ranks on 2 busy processors 1 MiB took a sixth of the time. `--yield 0` gives the blocking form.
#include <mpi.h>
#include <sched.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>

#include "peer.h"

namespace sumcast::peers {
namespace {

const MPI_Comm kWorld = MPI_COMM_WORLD;

#ifdef MPICH_VERSION
constexpr bool kYieldByDefault = true;
#else
constexpr bool kYieldByDefault = false;
#endif

// Errors end the job: MPI_ERRORS_ARE_FATAL is the default of MPI_COMM_WORLD.
class MpiPeer : public Peer {
 public:
  explicit MpiPeer(bool yield) : yield_(yield) {
    MPI_Comm_rank(kWorld, &rank_);
    MPI_Comm_size(kWorld, &world_);
  }

  int rank() const override { return rank_; }
  int world() const override { return world_; }
  void prepare(Collective, Buffers&) override {}

  void run(Collective collective, Buffers& buffers) override {
    if (yield_) {
      MPI_Request request = MPI_REQUEST_NULL;
      start(collective, buffers, request);
      wait_politely(request);
    } else {
      run_blocking(collective, buffers);
    }
  }

  void barrier() override {
    Buffers none;
    run(Collective::kBarrier, none);
  }

  void maximum(std::vector<double>& values) override {
    MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_DOUBLE, MPI_MAX,
                  kWorld);
  }

 private:
  static void run_blocking(Collective collective, Buffers& buffers) {
    float* const input = buffers.input.data();
    float* const output = buffers.output.data();
    const int elements = static_cast<int>(buffers.elements);
    const int block = static_cast<int>(buffers.block);
    switch (collective) {
      case Collective::kAllReduce:
        MPI_Allreduce(MPI_IN_PLACE, output, elements, MPI_FLOAT, MPI_SUM, kWorld);
        break;
      case Collective::kReduce:
        MPI_Reduce(input, output, elements, MPI_FLOAT, MPI_SUM, 0, kWorld);
        break;
      case Collective::kBroadcast:
        MPI_Bcast(output, elements, MPI_FLOAT, 0, kWorld);
        break;
      case Collective::kAllGather:
        MPI_Allgather(input, block, MPI_FLOAT, output, block, MPI_FLOAT, kWorld);
        break;
      case Collective::kReduceScatter:
        MPI_Reduce_scatter_block(input, output, block, MPI_FLOAT, MPI_SUM, kWorld);
        break;
      case Collective::kBarrier:
        MPI_Barrier(kWorld);
        break;
    }
  }

  static void start(Collective collective, Buffers& buffers, MPI_Request& request) {
    float* const input = buffers.input.data();
    float* const output = buffers.output.data();
    const int elements = static_cast<int>(buffers.elements);
    const int block = static_cast<int>(buffers.block);
    switch (collective) {
      case Collective::kAllReduce:
        MPI_Iallreduce(MPI_IN_PLACE, output, elements, MPI_FLOAT, MPI_SUM, kWorld, &request);
        break;
      case Collective::kReduce:
        MPI_Ireduce(input, output, elements, MPI_FLOAT, MPI_SUM, 0, kWorld, &request);
        break;
      case Collective::kBroadcast:
        MPI_Ibcast(output, elements, MPI_FLOAT, 0, kWorld, &request);
        break;
      case Collective::kAllGather:
        MPI_Iallgather(input, block, MPI_FLOAT, output, block, MPI_FLOAT, kWorld, &request);
        break;
      case Collective::kReduceScatter:
        MPI_Ireduce_scatter_block(input, output, block, MPI_FLOAT, MPI_SUM, kWorld, &request);
        break;
      case Collective::kBarrier:
        MPI_Ibarrier(kWorld, &request);
        break;
    }
  }

  static void wait_politely(MPI_Request& request) {
    for (int done = 0; done == 0;) {
      MPI_Test(&request, &done, MPI_STATUS_IGNORE);
      if (done == 0) ::sched_yield();
    }
  }

  bool yield_;
  int rank_ = -1;
  int world_ = -1;
};

int run(const Arguments& arguments) {
  MpiPeer peer(arguments.yield.value_or(kYieldByDefault));
  if (arguments.world > 0 && arguments.world != peer.world()) {
    std::fprintf(stderr, "%s: started with %d ranks, --world says %d\n", SUMCAST_PEER_NAME,
                 peer.world(), arguments.world);
    return 2;
  }
  const int code = run_peer(SUMCAST_PEER_NAME, arguments, peer);
  peer.barrier();
  return code;
}

}  // namespace

// Debian's MPICH 4.0 over UCX 1.13 hangs in MPI_Finalize more often than not: closing a TCP
// connection waits for the other rank's acknowledgement, and a rank that has closed all of its own
// no longer listens. Results are out by now, and its launcher takes an exit with code 0 for what it
// is, so there we leave without.
[[noreturn]] void finish(int code) {
#ifdef MPICH_VERSION
  std::fflush(nullptr);
  ::_exit(code);
#else
  MPI_Finalize();
  std::exit(code);
#endif
}

}  // namespace sumcast::peers

int main(int argc, char** argv) {
  const auto arguments = sumcast::peers::parse_arguments(argc, argv);
  MPI_Init(&argc, &argv);
  int code = 2;
  try {
    code = sumcast::peers::run(arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", SUMCAST_PEER_NAME, error.what());
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  sumcast::peers::finish(code);
}
