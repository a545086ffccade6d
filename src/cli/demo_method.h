// The ways of summing that the demo compares, and what each needs and promises.
//
// Pure data: the driver starts what a method needs, the worker passes its algorithm and wire format
// on to the library, the promises (demo_result.h) ask which methods must give the same bits.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "sumcast/sumcast.hpp"

namespace sumcast::cli {

/// Where a method's sumcastd runs.
enum class DaemonSite : uint8_t {
  kNone,        ///< Nowhere: the workers sum among themselves, rank 0 coordinates.
  kAggregator,  ///< Where a switch would be: as many ports as there are workers.
  kServer,      ///< On a host with one link like a worker's, as a parameter server is.
};

struct DemoMethod {
  std::string_view name;  ///< As on the command line and in every output.
  Algorithm algorithm = Algorithm::kAuto;
  WireFormat wire = WireFormat::kNative;
  DaemonSite daemon = DaemonSite::kNone;
  /// Sums are the canonical fold, unrounded on the wire: all such methods train the same weights.
  bool canonical = false;
  std::string_view note;  ///< A few words for tables.
};

/// All methods in the order in which they run.
std::span<const DemoMethod> demo_methods();

/// The method called `name`, if there is one.
std::optional<DemoMethod> demo_method_from_name(std::string_view name);

/// "in-network, in-network-bf16, ...": for messages.
std::string demo_method_names();

}  // namespace sumcast::cli
