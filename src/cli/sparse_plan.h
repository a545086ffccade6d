// What `sumcast bench sparse` was asked for, and how its rows read. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sparse/options.h"

namespace sumcast::cli {

struct SparseFlags {
  std::string skew = "ctr";  ///< ctr, text, flat.
  std::string paths = "servers,forward,dual,auto";
  uint32_t workers = 8;
  uint32_t servers = 1;
  std::string rate;
  uint32_t batch = 256;  ///< Rows of a worker's batch.
  uint32_t width = 16;   ///< f32 lanes of a key's row.
  uint64_t vocabulary = 1'000'000;
  std::string text = "debian-packages";
  std::string optimizer = "adagrad";
  std::string wire = "fp32", row_wire = "fp32";
  uint32_t rounds = 16;        ///< Of a timed block.
  uint32_t repeats = 5;        ///< Blocks of each path, by turns.
  uint32_t flush_every = 16;   ///< Rounds.
  double hot_share_max = 0.1;  ///< Of the vocabulary.
  uint32_t segments = 0;       ///< Of each server; 0: what suits the batch.
  std::string staleness_list = "0";
  uint32_t staleness = 0;  ///< Batches asked for ahead; one of the list.
  uint64_t seed = 1;
  double loss = 0;
  std::string peer;  ///< "pslite=DIR"; empty: none.
  bool sweep = false;
  std::string out;  ///< Of a sweep: a file of rows, added to.
  bool json = false;
  bool loopback = false;
};

/// A way that keys go.
enum class SparsePath : uint8_t {
  kServers = 0,  ///< All keys to servers.
  kDual = 1,     ///< Hot keys through the aggregator, replicated at the workers.
  kAuto = 2,     ///< Whichever of both is faster here.
  kForward = 3,  ///< Hot sums forwarded to the servers, hot rows pulled from there.
};
std::string_view name_of(SparsePath path);
inline constexpr size_t kSparsePaths = 4;
/// "servers,dual" and the like. kInvalidArgument names the word that is none.
Result<std::vector<SparsePath>> sparse_paths(const std::string& list);

/// The flags for each staleness of the list. Those above 0 lack what has synchronous rounds only,
/// the path `forward` and peers; kInvalidArgument: nothing is left, or no number.
Result<std::vector<SparseFlags>> sparse_stages(const SparseFlags& flags);

/// What all members are told. kInvalidArgument: one line about the first flag that cannot be.
Result<sparse::Options> sparse_options(const SparseFlags& flags);

/// What a worker reports of one block.
struct SparseBlock {
  double round_us = 0;  ///< Of the block; on this worker.
  uint64_t hash = 0;    ///< Of the rows that came last.
  uint64_t hot_pushed = 0, cold_pushed = 0, hot_keys = 0;
  std::string chosen;            ///< auto: "servers" or "dual".
  std::optional<uint32_t> rank;  ///< Whose it is, if not that of the place.
};
std::string to_json_line(const SparseBlock& block);
Result<SparseBlock> sparse_block_from_line(std::string_view line);

/// One path's figures, over all its blocks.
struct SparseRow {
  std::string path;             ///< A path's name, or a peer's.
  double round_us = 0;          ///< Median over blocks of the slowest worker's mean.
  double bytes_per_worker = 0;  ///< Of a round, both directions, the busiest worker.
  double server_bytes = 0;      ///< Of a round, both directions, all servers.
  double server_packets = 0;
  uint64_t server_drops = 0;  ///< Packets that found a server's queue full, in all blocks.
  uint32_t server_flows = 0;  ///< Streams that end at servers.
  double hot_share = 0;       ///< Of the gradients.
  uint64_t hot_keys = 0;
  uint64_t wrong = 0;  ///< Blocks whose rows differ from those of the first path.
  std::string chosen;
};
std::string to_json_line(const SparseRow& row, const SparseFlags& flags);
/// A table, and how much faster each path is than the first.
std::string sparse_table(const std::vector<SparseRow>& rows, const SparseFlags& flags);

}  // namespace sumcast::cli
