// What `sumcast demo` was asked to do, and everything that can be wrong with it.
//
// Checked as a whole before anything is started: nobody should train four methods and learn then
// that the report cannot be written. Reading flags is demo_command's part; this is what they mean.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/demo_method.h"
#include "trainer/idx.h"

namespace sumcast::cli {

/// Enough for any one machine; each worker is a process with a data set and a model.
inline constexpr int kDemoWorkersMax = 64;

/// The size of run for which the demo promises an accuracy.
inline constexpr int kDemoFullEpochs = 3;
inline constexpr int kDemoFullImagesPerStep = 4 * 128;

struct DemoOptions {
  int workers = 4;               ///< 2..kDemoWorkersMax.
  int epochs = kDemoFullEpochs;  ///< At least 1.
  int batch = 128;               ///< Images per worker and step, at least 1.
  std::string rate = "1gbit";    ///< Of each link, as parse_rate reads it.
  int images = 0;                ///< Train on the first so many only; 0: all.
  uint64_t seed = 1;             ///< Of initial weights and of the order of images.
  std::string report = "./sumcast-demo.html";
  std::string data = trainer::kFashionMnistDirectory;
  std::vector<std::string> methods;  ///< By name; empty: all. They run in demo_methods()'s order.
  std::string width = "1";  ///< Steps under way at once, 1..pipeline::kWidthMax, or "auto".
  bool auto_wire =
      false;              ///< With "auto": 16 bits on the wire are allowed where a method has them.
  bool loopback = false;  ///< Do not even try to make network namespaces.
  bool json = false;      ///< One JSON object per method on standard output.

  /// All that is wrong, one line each that names the flag; empty if the demo can start. Looks at
  /// the report's directory, not at the data (their reader does that).
  std::vector<std::string> validate() const;

  /// The width as a number, 0 for "auto"; `width` must be valid.
  uint32_t width_number() const;
  /// Bits per second; `rate` must be valid.
  uint64_t rate_bits_per_second() const;
  /// The methods to run, in order.
  std::vector<DemoMethod> chosen_methods() const;
  /// Steps that each worker takes, given how many training images there are.
  uint64_t steps(uint64_t training_images) const;
  /// True if the run is long enough to hold the demo to its promised accuracy.
  bool full_size(uint64_t training_images) const;
  /// The shortest command line that asks for this.
  std::string command_line() const;
};

}  // namespace sumcast::cli
