// Puts the parts of a pull together: the reverse of slicing.
#ifndef PS_INTERNAL_KV_GATHER_H_
#define PS_INTERNAL_KV_GATHER_H_

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "ps/internal/kv_pairs.h"

namespace ps {
namespace internal {

/// Makes `array` `size` long; false if it has another size already.
template <typename Array>
bool Fit(Array* array, size_t size) {
  if (array->empty() && size > 0) array->resize(size);
  return array->size() == size;
}

/// How many values the i-th key of a part has.
template <typename Val>
size_t LengthAt(const KVPairs<Val>& part, size_t i) {
  return part.lens.empty() ? part.vals.size() / part.keys.size()
                           : static_cast<size_t>(part.lens[i]);
}

/// Checks a part by itself; a text if something is wrong with it.
template <typename Val>
std::string PartProblem(const KVPairs<Val>& part) {
  if (part.keys.empty()) return "a server answered a pull with no keys";
  if (part.lens.empty()) {
    if (part.vals.size() % part.keys.size() == 0) return "";
    return "a server answered a pull with " + std::to_string(part.vals.size()) + " values for " +
           std::to_string(part.keys.size()) + " keys";
  }
  uint64_t total = 0;
  for (int length : part.lens) {
    if (length < 0) return "a server answered a pull with a negative length";
    total += static_cast<uint64_t>(length);
  }
  if (part.lens.size() == part.keys.size() && total == part.vals.size()) return "";
  return "a server answered a pull with lens that do not fit its keys and values";
}

/// Parts may have been received in `to` already (Customer::OfferRoom). Those that stand in another
/// place than their own, because lengths are not what was expected, are taken out.
template <typename Val>
void TakeOutMisplaced(std::vector<KVPairs<Val>>* parts, const Val* to, size_t total) {
  const std::less<const Val*> before{};
  size_t at = 0;
  for (KVPairs<Val>& part : *parts) {
    const Val* const here = part.vals.data();
    if (!part.vals.empty() && here != to + at && !before(here, to) && before(here, to + total)) {
      SArray<Val> copy;
      copy.CopyFrom(here, part.vals.size());
      part.vals = copy;
    }
    at += part.vals.size();
  }
}

/// Fills vals (and lens, unless null) in the order of `keys` from the servers' parts, which it may
/// reorder. `hashed_over`: the number of servers if the keys went by hash, else 0.
/// Returns what is wrong, and has then changed nothing but what stands in rooms already; empty if
/// all is well.
template <typename Val, typename Vals, typename Lens>
std::string Gather(const SArray<Key>& keys, std::vector<KVPairs<Val>>* parts, size_t hashed_over,
                   Vals* vals, Lens* lens) {
  size_t total_keys = 0, total_vals = 0;
  for (const KVPairs<Val>& part : *parts) {
    const std::string problem = PartProblem(part);
    if (!problem.empty()) return problem;
    total_keys += part.keys.size();
    total_vals += part.vals.size();
  }
  std::sort(parts->begin(), parts->end(), [](const KVPairs<Val>& a, const KVPairs<Val>& b) {
    return a.keys.front() < b.keys.front();
  });
  // Where each key's values come from: in ranges the parts follow one another, by hash the key
  // names its part.
  std::vector<size_t> part_of(hashed_over, parts->size()), next(parts->size(), 0);
  bool fits = total_keys == keys.size();
  if (hashed_over == 0) {
    const Key* at = keys.data();
    for (size_t p = 0; fits && p < parts->size(); ++p) {
      const SArray<Key>& own = (*parts)[p].keys;
      fits = std::memcmp(at, own.data(), own.size() * sizeof(Key)) == 0;
      at += own.size();
    }
  } else if (fits) {
    for (size_t p = 0; p < parts->size(); ++p) {
      part_of[HashedServer((*parts)[p].keys.front(), hashed_over)] = p;
    }
    for (size_t i = 0; fits && i < keys.size(); ++i) {
      const size_t p = part_of[HashedServer(keys[i], hashed_over)];
      fits = p < parts->size() && next[p] < (*parts)[p].keys.size() &&
             (*parts)[p].keys[next[p]] == keys[i];
      if (fits) ++next[p];
    }
  }
  if (!fits) {
    return "servers answered a pull of " + std::to_string(keys.size()) + " keys with " +
           std::to_string(total_keys) + " keys, or with others";
  }
  if (!Fit(vals, total_vals)) {
    return "a pull brought " + std::to_string(total_vals) + " values, but there is room for " +
           std::to_string(vals->size());
  }
  if (lens != nullptr && !Fit(lens, keys.size())) {
    return "lens has " + std::to_string(lens->size()) + " elements for " +
           std::to_string(keys.size()) + " keys";
  }

  Val* to = vals->data();
  if (hashed_over == 0) {
    TakeOutMisplaced(parts, static_cast<const Val*>(to), total_vals);
    size_t at = 0;
    for (const KVPairs<Val>& part : *parts) {
      if (!part.vals.empty() && part.vals.data() != to)
        std::memcpy(to, part.vals.data(), part.vals.size() * sizeof(Val));
      to += part.vals.size();
      for (size_t i = 0; lens != nullptr && i < part.keys.size(); ++i, ++at) {
        (*lens)[at] = static_cast<int>(LengthAt(part, i));
      }
    }
    return "";
  }
  std::vector<const Val*> from;
  for (const KVPairs<Val>& part : *parts) from.push_back(part.vals.data());
  std::fill(next.begin(), next.end(), size_t(0));
  for (size_t i = 0; i < keys.size(); ++i) {
    const size_t p = part_of[HashedServer(keys[i], hashed_over)];
    const size_t length = LengthAt((*parts)[p], next[p]++);
    to = std::copy(from[p], from[p] + length, to);
    from[p] += length;
    if (lens != nullptr) (*lens)[i] = static_cast<int>(length);
  }
  return "";
}

}  // namespace internal
}  // namespace ps
#endif  // PS_INTERNAL_KV_GATHER_H_
