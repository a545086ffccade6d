// What `sumcast bench torch` was asked for. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sumcast::cli {

struct TorchFlags {
  std::string models = "resnet18,embedding";
  /// gloo, in-network, direct; in-network and direct take a wire format behind a colon.
  std::string contenders = "gloo,in-network,in-network:bf16,direct";
  uint32_t workers = 4;
  uint32_t ranks_per_host = 1;
  std::string rate;
  uint32_t steps = 10;
  uint32_t warmup = 3;
  std::string python;  ///< Empty: of the active virtual environment, else python3.
  bool json = false;
  bool loopback = false;
};

struct TorchContender {
  std::string backend;  ///< Of init_process_group: "gloo" or "sumcast".
  std::string algo;     ///< "in-network", "direct"; of gloo "gloo".
  std::string wire = "fp32";
};

/// What one run of one model said.
struct TorchRow {
  std::string model;
  TorchContender contender;
  uint32_t ranks = 0, hosts = 0;
  double rate_bps = 0;
  double step_us = 0, exposed_comm_us = 0;
};

/// "in-network:bf16" and the like. kInvalidArgument names the word that is none.
Result<std::vector<TorchContender>> torch_contenders(const std::string& list);
Result<std::vector<std::string>> torch_models(const std::string& list);

/// The last line of rank 0: step_us, exposed_comm_us, identical. kMismatch if the ranks ended with
/// different weights.
Result<TorchRow> torch_row_from_line(std::string_view line);

/// One object, keys as documented for --json.
std::string to_json_line(const TorchRow& row);
/// A table per model, and how much less communication shows than with its first row.
std::string torch_table(const std::vector<TorchRow>& rows);

}  // namespace sumcast::cli
