// One member of a sparse bench: `sumcast sparse-member`, started by the driver on a node of its
// own. Ranks below the number of workers train, the others serve.
//
//   driver                                 worker
//                                          {"ready": true}               joined, batches are drawn
//   prepare <path> <rounds>                {"ready": true}               hot keys set, rows pulled,
//                                                                        so many rounds trained
//   run <rounds> <start, ns monotonic>     one SparseBlock
//   (end of input)                         leaves
//
// Every path trains a copy of the keys of its own (the path's number is mixed into them) on the
// same batches and gradients, from rows of zeros: so all must end with the same bits.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/sparse_plan.h"
#include "sumcast/sumcast.hpp"

namespace sumcast::cli {

struct SparseMemberOptions {
  SparseFlags flags;
  Options library;
};

std::vector<std::string> sparse_member_argv(const std::string& program,
                                            const SparseMemberOptions& options);
/// Registers the hidden subcommand `sparse-member`.
void add_sparse_member_command(CLI::App& app, int& exit_code);

}  // namespace sumcast::cli
