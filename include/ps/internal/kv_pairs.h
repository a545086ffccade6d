// Key-value pairs, and how they are cut into one part for each server.
//
// By ranges a part is a run of the sorted keys and shares the caller's memory. By hash (for keys
// that crowd at one end, such as small ids) it is gathered, unless one server has all keys; the
// order within a part stays sorted.
#ifndef PS_INTERNAL_KV_PAIRS_H_
#define PS_INTERNAL_KV_PAIRS_H_

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "ps/base.h"
#include "ps/range.h"
#include "ps/sarray.h"

namespace ps {

/// keys: Key[n], strictly increasing. vals: Val[n * k], or, if `lens` is given, Val[sum of lens].
/// lens: int[n] or empty.
template <typename Val>
struct KVPairs {
  SArray<Key> keys;
  SArray<Val> vals;
  SArray<int> lens;
  int priority = 0;
};

/// For each server, in order of rank: whether it has a part, and the part.
template <typename Val>
using KVSlices = std::vector<std::pair<bool, KVPairs<Val>>>;

namespace internal {

/// The first position whose key is not above its predecessor's; keys.size() if there is none.
inline size_t FirstUnsorted(const SArray<Key>& keys) {
  constexpr size_t kBlock = 256;  // Without a branch inside, so that compilers use vectors.
  const Key* k = keys.data();
  const size_t n = keys.size();
  size_t i = 1;
  for (; i + kBlock <= n; i += kBlock) {
    unsigned bad = 0;
    for (size_t j = 0; j < kBlock; ++j) bad |= k[i + j - 1] >= k[i + j] ? 1u : 0u;
    if (bad != 0) break;
  }
  for (; i < n; ++i) {
    if (k[i - 1] >= k[i]) return i;
  }
  return n;
}

/// Fails (dmlc::Error), naming the position, if the pairs are not what KVPairs demands.
template <typename Val>
void CheckPairs(const KVPairs<Val>& kvs) {
  const size_t n = kvs.keys.size();
  const size_t bad = FirstUnsorted(kvs.keys);
  if (bad < n) {
    LOG(FATAL) << "keys must be sorted and unique: keys[" << bad << "] = " << kvs.keys[bad]
               << " follows keys[" << bad - 1 << "] = " << kvs.keys[bad - 1];
  }
  if (kvs.lens.empty()) {
    if (n == 0 ? !kvs.vals.empty() : kvs.vals.size() % n != 0) {
      LOG(FATAL) << kvs.vals.size() << " values do not divide evenly among " << n
                 << " keys; give lens if keys have different numbers of values";
    }
    return;
  }
  if (kvs.lens.size() != n) {
    LOG(FATAL) << "lens has " << kvs.lens.size() << " elements for " << n << " keys";
  }
  if (kvs.vals.empty()) return;  // A pull: lens is where lengths will be stored.
  uint64_t total = 0;
  for (size_t i = 0; i < n; ++i) {
    if (kvs.lens[i] < 0) LOG(FATAL) << "lens[" << i << "] = " << kvs.lens[i] << " is negative";
    total += static_cast<uint64_t>(kvs.lens[i]);
  }
  if (total != kvs.vals.size()) {
    LOG(FATAL) << "lens add up to " << total << ", but there are " << kvs.vals.size() << " values";
  }
}

/// Cuts at the ranges' ends; the last range takes all keys from its begin on.
template <typename Val>
void SliceByRanges(const KVPairs<Val>& send, const std::vector<Range>& ranges,
                   KVSlices<Val>* sliced) {
  const size_t n = ranges.size(), keys = send.keys.size();
  const size_t k = keys == 0 ? 0 : send.vals.size() / keys;
  const bool has_lens = send.lens.size() == keys && !send.vals.empty() && keys > 0;
  sliced->clear();
  sliced->resize(n);
  size_t at = 0, val_at = 0;
  for (size_t i = 0; i < n; ++i) {
    const Key* begin = send.keys.begin() + at;
    const Key* stop =
        i + 1 == n ? send.keys.end()
                   : std::lower_bound(begin, send.keys.end(), static_cast<Key>(ranges[i].end()));
    const size_t count = static_cast<size_t>(stop - begin);
    if (count == 0) continue;
    KVPairs<Val>& part = (*sliced)[i].second;
    (*sliced)[i].first = true;
    part.priority = send.priority;
    part.keys = send.keys.segment(at, at + count);
    size_t vals = count * k;
    if (has_lens) {
      part.lens = send.lens.segment(at, at + count);
      vals = 0;
      for (int length : part.lens) vals += static_cast<size_t>(length);
    }
    if (!send.vals.empty()) part.vals = send.vals.segment(val_at, val_at + vals);
    val_at += vals;
    at += count;
  }
}

/// The server of a key when the partition is by hash: the finaliser of SplitMix64 (Steele, Lea,
/// Flood 2014) spreads neighbouring keys, the high half of a product picks one of n.
inline size_t HashedServer(Key key, size_t servers) {
  uint64_t z = static_cast<uint64_t>(key) + 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  z ^= z >> 31;
  return static_cast<size_t>(((z >> 32) * static_cast<uint64_t>(servers)) >> 32);
}

/// Gathers each server's keys. If they are all one server's, as a single key is, nothing is copied.
template <typename Val>
void SliceByHash(const KVPairs<Val>& send, size_t servers, KVSlices<Val>* sliced) {
  const size_t keys = send.keys.size();
  const size_t k = keys == 0 ? 0 : send.vals.size() / keys;
  const bool has_lens = send.lens.size() == keys && !send.vals.empty() && keys > 0;
  sliced->clear();
  sliced->resize(servers);
  if (keys == 0) return;
  const size_t first = HashedServer(send.keys[0], servers);
  size_t same = 1;
  while (same < keys && HashedServer(send.keys[same], servers) == first) ++same;
  if (same == keys) {
    (*sliced)[first] = {true, send};
    if (!has_lens) (*sliced)[first].second.lens = SArray<int>();
    return;
  }
  std::vector<uint32_t> server_of(keys);
  std::vector<size_t> counts(servers, 0), val_counts(servers, 0);
  for (size_t i = 0; i < keys; ++i) {
    const size_t s = HashedServer(send.keys[i], servers);
    server_of[i] = static_cast<uint32_t>(s);
    ++counts[s];
    val_counts[s] += has_lens ? static_cast<size_t>(send.lens[i]) : k;
  }
  /// Where a server's next key goes, and what belongs to it.
  struct Cursor {
    Key* key;
    Val* val;
    int* length;
  };
  std::vector<Cursor> cursors(servers);
  for (size_t s = 0; s < servers; ++s) {
    if (counts[s] == 0) continue;
    KVPairs<Val>& part = (*sliced)[s].second;
    (*sliced)[s].first = true;
    part.priority = send.priority;
    part.keys = SArray<Key>(new Key[counts[s]], counts[s], true);
    if (has_lens) part.lens = SArray<int>(new int[counts[s]], counts[s], true);
    if (!send.vals.empty()) part.vals = SArray<Val>(new Val[val_counts[s]], val_counts[s], true);
    cursors[s] = {part.keys.data(), part.vals.data(), part.lens.data()};
  }
  const Val* from = send.vals.data();
  for (size_t i = 0; i < keys; ++i) {
    Cursor& to = cursors[server_of[i]];
    const size_t length = has_lens ? static_cast<size_t>(send.lens[i]) : k;
    *to.key++ = send.keys[i];
    if (has_lens) *to.length++ = send.lens[i];
    to.val = std::copy(from, from + length, to.val);
    from += length;
  }
}

}  // namespace internal
}  // namespace ps
#endif  // PS_INTERNAL_KV_PAIRS_H_
