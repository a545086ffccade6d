#include "hotset/packing_study.h"

#include <algorithm>

#include "base/assert.h"
#include "hotset/packer.h"

namespace sumcast::hotset {
namespace {

constexpr uint32_t kCold = UINT32_MAX;

/// The hot keys of batches, as ranks, in the order of their ids.
class HotBatches {
 public:
  HotBatches(const Corpus& corpus, std::span<const KeyIndex> hot) : corpus_(corpus) {
    rank_of_.assign(corpus.distinct_keys(), kCold);
    last_batch_.assign(corpus.distinct_keys(), 0);
    for (uint32_t rank = 0; rank < hot.size(); ++rank) rank_of_[hot[rank]] = rank;
    std::vector<uint32_t> by_id(hot.size());
    for (uint32_t rank = 0; rank < hot.size(); ++rank) by_id[rank] = rank;
    std::sort(by_id.begin(), by_id.end(),
              [&](uint32_t a, uint32_t b) { return corpus.key(hot[a]) < corpus.key(hot[b]); });
    id_order_.resize(hot.size());
    for (uint32_t place = 0; place < by_id.size(); ++place) id_order_[by_id[place]] = place;
  }

  std::span<const uint32_t> of(std::span<const uint32_t> rows) {
    ++batch_;
    ranks_.clear();
    for (const uint32_t row : rows) {
      for (const KeyIndex key : corpus_.row(row)) {
        if (rank_of_[key] == kCold || last_batch_[key] == batch_) continue;
        last_batch_[key] = batch_;
        ranks_.push_back(rank_of_[key]);
      }
    }
    std::sort(ranks_.begin(), ranks_.end(),
              [&](uint32_t a, uint32_t b) { return id_order_[a] < id_order_[b]; });
    return ranks_;
  }

 private:
  const Corpus& corpus_;
  std::vector<uint32_t> rank_of_;   // Per KeyIndex, or kCold.
  std::vector<uint32_t> id_order_;  // Per rank.
  std::vector<uint64_t> last_batch_;
  uint64_t batch_ = 0;
  std::vector<uint32_t> ranks_;
};

/// What one placement, packed one way, comes to over all batches.
struct Contender {
  Contender(std::string name, Placement where, bool is_naive)
      : method(std::move(name)), placement(std::move(where)), naive(is_naive), packer(placement) {}
  Contender(const Contender&) = delete;
  Contender& operator=(const Contender&) = delete;

  void run(std::span<const uint32_t> ranks) {
    if (naive) {
      const NaivePacking packed = pack_naively(placement, ranks);
      packets += packed.packets;
      passes += packed.passes;
      conflicts += packed.conflicts;
    } else {
      const size_t count = packer.pack(ranks).packets.size();
      packets += count;
      passes += count;
    }
  }

  std::string method;
  Placement placement;
  bool naive;
  Packer packer;
  uint64_t packets = 0;
  uint64_t passes = 0;
  uint64_t conflicts = 0;
};

double ratio(double a, double b) { return b > 0 ? a / b : 0; }

PackingRow row_of(const Contender& contender, uint64_t keys, uint64_t least, uint64_t batches) {
  const auto passes = static_cast<double>(contender.passes);
  const auto packets = static_cast<double>(contender.packets);
  const Placement& placement = contender.placement;
  return {.method = contender.method,
          .conflicts_per_key =
              ratio(static_cast<double>(contender.conflicts), static_cast<double>(keys)),
          .packets_per_batch = ratio(packets, static_cast<double>(batches)),
          .passes_per_packet = ratio(passes, packets),
          .passes_per_batch = ratio(passes, static_cast<double>(batches)),
          .fill = ratio(static_cast<double>(least), passes),
          .lanes_filled = ratio(static_cast<double>(keys), passes * placement.arrays),
          .doubled_share = ratio(static_cast<double>(placement.doubled),
                                 static_cast<double>(placement.keys.size())),
          .depth = placement.depth()};
}

}  // namespace

PackingStudy study_packing(const Corpus& corpus, std::span<const KeyIndex> hot,
                           std::span<const uint32_t> rows, size_t batch, uint32_t arrays,
                           double doubled_share) {
  SUMCAST_ASSERT(batch >= 1);
  std::vector<uint64_t> ids;
  for (const KeyIndex key : hot) ids.push_back(corpus.key(key));
  Contender contenders[] = {
      {"hash, naive", place_by_hash(ids, arrays), true},
      {"hash, packed", place_by_hash(ids, arrays), false},
      {"heat, naive", place_by_heat(hot.size(), arrays), true},
      {"heat, packed", place_by_heat(hot.size(), arrays), false},
      {"two choices", place_two_choices(hot.size(), arrays, doubled_share), false}};
  PackingStudy study;
  HotBatches batches(corpus, hot);
  uint64_t keys = 0, least = 0;
  for (size_t begin = 0; begin + batch <= rows.size(); begin += batch) {
    const auto ranks = batches.of(rows.subspan(begin, batch));
    ++study.batches;
    keys += ranks.size();
    least += (ranks.size() + arrays - 1) / arrays;
    for (Contender& contender : contenders) contender.run(ranks);
  }
  study.keys_per_batch = ratio(static_cast<double>(keys), static_cast<double>(study.batches));
  for (const Contender& contender : contenders) {
    study.rows.push_back(row_of(contender, keys, least, study.batches));
  }
  return study;
}

}  // namespace sumcast::hotset
