// gloo as a peer: one TCP connection per pair of ranks, full mesh.
//
// gloo has two generations of all-reduce. The functions (ring, bcube) are what PyTorch calls; the
// older class templates include halving-doubling and a chunked ring, which for some sizes are
// faster. All are offered, so that the driver can compare with the best.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <map>
#include <memory>
#include <stdexcept>

#include "peer.h"

namespace sumcast::peers {
namespace {

// Longer than any run or any pause of the driver.
constexpr std::chrono::minutes kTimeout{10};

using Function = void (*)(void*, const void*, const void*, size_t);

class GlooPeer : public Peer {
 public:
  explicit GlooPeer(const Arguments& arguments) : algorithm_(arguments.algorithm) {
    gloo::transport::tcp::attr attributes;
    if (arguments.address.empty()) {
      attributes.iface = arguments.interface;
    } else {
      attributes.hostname = arguments.address;
    }
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    gloo::rendezvous::FileStore store(arguments.root_directory);
    auto context = std::make_shared<gloo::rendezvous::Context>(arguments.rank, arguments.world);
    context->setTimeout(kTimeout);
    context->connectFullMesh(store, device);
    context_ = std::move(context);
  }

  int rank() const override { return context_->rank; }
  int world() const override { return context_->size; }

  void prepare(Collective collective, Buffers& buffers) override {
    prepared_.reset();
    const int elements = static_cast<int>(buffers.elements);
    const std::vector<float*> output = {buffers.output.data()};
    if (collective == Collective::kReduceScatter) {
      const std::vector<int> blocks(static_cast<size_t>(world()), static_cast<int>(buffers.block));
      prepared_ = std::make_unique<gloo::ReduceScatterHalvingDoubling<float>>(
          context_, std::vector<float*>{buffers.input.data()}, elements, blocks);
    } else if (collective != Collective::kAllReduce && algorithm_ != "auto") {
      throw std::invalid_argument("this collective has one algorithm: auto");
    } else if (algorithm_ == "halving_doubling") {
      prepared_ =
          std::make_unique<gloo::AllreduceHalvingDoubling<float>>(context_, output, elements);
    } else if (algorithm_ == "ring_chunked") {
      prepared_ = std::make_unique<gloo::AllreduceRingChunked<float>>(context_, output, elements);
    } else if (function_algorithms().count(algorithm_) == 0) {
      throw std::invalid_argument("there is no algorithm " + algorithm_);
    }
  }

  void run(Collective collective, Buffers& buffers) override {
    if (prepared_) {
      prepared_->run();
      return;
    }
    switch (collective) {
      case Collective::kAllReduce:
        all_reduce(buffers.output.data(), buffers.elements, function_algorithms().at(algorithm_),
                   Function(&gloo::sum<float>));
        break;
      case Collective::kReduce:
        reduce(buffers);
        break;
      case Collective::kBroadcast: {
        gloo::BroadcastOptions options(context_);
        options.setRoot(0);
        options.setOutput(buffers.output.data(), buffers.elements);
        gloo::broadcast(options);
        break;
      }
      case Collective::kAllGather: {
        gloo::AllgatherOptions options(context_);
        options.setInput(buffers.input.data(), buffers.block);
        options.setOutput(buffers.output.data(), buffers.elements);
        gloo::allgather(options);
        break;
      }
      case Collective::kReduceScatter:
        break;  // Always prepared.
      case Collective::kBarrier:
        barrier();
        break;
    }
  }

  const float* result(Collective collective, const Buffers& buffers) const override {
    return collective == Collective::kReduceScatter ? buffers.input.data() : buffers.output.data();
  }

  void barrier() override {
    gloo::BarrierOptions options(context_);
    gloo::barrier(options);
  }

  void maximum(std::vector<double>& values) override {
    all_reduce(values.data(), values.size(), gloo::AllreduceOptions::Algorithm::RING,
               Function(&gloo::max<double>));
  }

 private:
  using Algorithms = std::map<std::string, gloo::AllreduceOptions::Algorithm>;

  static const Algorithms& function_algorithms() {
    static const Algorithms algorithms = {
        {"auto", gloo::AllreduceOptions::Algorithm::UNSPECIFIED},
        {"ring", gloo::AllreduceOptions::Algorithm::RING},
        {"bcube", gloo::AllreduceOptions::Algorithm::BCUBE},
    };
    return algorithms;
  }

  template <typename T>
  void all_reduce(T* data, size_t elements, gloo::AllreduceOptions::Algorithm algorithm,
                  Function function) {
    gloo::AllreduceOptions options(context_);
    options.setAlgorithm(algorithm);
    options.setOutput(data, elements);
    options.setReduceFunction(function);
    gloo::allreduce(options);
  }

  void reduce(Buffers& buffers) {
    gloo::ReduceOptions options(context_);
    options.setRoot(0);
    options.setInput(buffers.input.data(), buffers.elements);
    options.setOutput(buffers.output.data(), buffers.elements);
    options.setReduceFunction(Function(&gloo::sum<float>));
    gloo::reduce(options);
  }

  std::string algorithm_;
  std::shared_ptr<gloo::Context> context_;
  std::unique_ptr<gloo::Algorithm> prepared_;
};

}  // namespace
}  // namespace sumcast::peers

int main(int argc, char** argv) {
  const auto arguments = sumcast::peers::parse_arguments(argc, argv);
  if (arguments.rank < 0 || arguments.world <= arguments.rank || arguments.root_directory.empty() ||
      arguments.interface.empty() == arguments.address.empty()) {
    std::fprintf(stderr,
                 "gloo: needs --rank, --world, --root-dir and one of --interface and --address\n");
    return 2;
  }
  try {
    sumcast::peers::GlooPeer peer(arguments);
    return sumcast::peers::run_peer("gloo", arguments, peer);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gloo: rank %d: %s\n", arguments.rank, error.what());
    return 2;
  }
}
