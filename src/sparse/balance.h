// How many keys to make hot: until the server's link and the workers' are equally busy.
//
// A key that goes through the aggregator costs no byte on a server's link; but every worker gets
// every hot row's sum, whoever touched it. So keys that most workers touch in most rounds are worth
// it, and keys that one worker touches now and then are not: beyond some point the workers' links
// are what everybody waits for. Near that point little changes, while every hot key costs processor
// time at all workers: the fewest keys that come within kTolerance of the best are taken. The model
// counts bytes on the busiest link in the busier direction
// (all are full duplex), from each key's chance to be in a worker's batch.
//
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/element.h"
#include "hotset/chances.h"
#include "hotset/corpus.h"
#include "sparse/options.h"

namespace sumcast::sparse {

inline constexpr double kTolerance = 0.10;
/// What hot keys must promise to be worth the processors' time.
inline constexpr double kGainMin = 1.1;

struct LinkModel {
  uint32_t workers = 1;
  uint32_t servers = 1;
  double row_bytes = 4;       ///< A row as it is pulled.
  double gradient_bytes = 4;  ///< A gradient on the wire.
  double key_bytes = 8;       ///< Of a key that is pulled.
  double cell_slots = 22;     ///< Rows of a datagram.
  double cell_bytes = 130;    ///< Of a datagram without rows, headers of all layers included.
  /// A link that has a share of the servers' rate to spare: 1 if workers and servers have equal
  /// links.
  double worker_rate = 1, server_rate = 1;
};

/// Of a job whose members have equal links.
///
/// @param payload_bytes  of a datagram that the aggregator takes.
LinkModel link_model(const Options& job, size_t payload_bytes);

struct Balance {
  size_t hot = 0;          ///< Keys to make hot: the first so many.
  double round_bytes = 0;  ///< On the busiest link then, at the servers' rate.
  double cold_bytes = 0;   ///< The same with no key hot.
  double gain() const { return round_bytes > 0 ? cold_bytes / round_bytes : 1.0; }
};

/// @param chances  of keys, in descending order: of being in one worker's batch. Keys too rare to
///                 be listed are `others` keys a batch.
/// @param hot_max  no more than these may be hot.
Balance balance(const LinkModel& model, std::span<const double> chances, double others,
                size_t hot_max);
/// The same for what a sample says: `order` by falling heat.
Balance balance(const LinkModel& model, const hotset::Chances& chances,
                std::span<const hotset::KeyIndex> order, size_t hot_max);
/// Samples rows' heat into hot keys, hottest first: the whole way from a corpus.
///
/// @param batch  rows of a worker's batch in training.
std::vector<uint64_t> choose_hot_keys(const LinkModel& model, const hotset::Corpus& corpus,
                                      size_t batch, size_t hot_max);

}  // namespace sumcast::sparse
