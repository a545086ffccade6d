#include "ps/merge_cut.h"

#include <cstring>
#include <memory>

#include "ps/frame.h"

namespace sumcast::ps {
namespace {

::ps::SArray<char> room(size_t bytes) { return {new char[bytes], bytes, true}; }

::ps::Message empty_copy(const ::ps::Message& message, size_t keys, size_t row_bytes) {
  ::ps::Message copy;
  copy.meta = message.meta;
  if (keys == 0) return copy;
  copy.data = {room(keys * sizeof(uint64_t)), room(keys * row_bytes)};
  copy.meta.data_size = keys * (sizeof(uint64_t) + row_bytes);
  return copy;
}

}  // namespace

CutPush cut_push(const ::ps::Message& message, const RowShape& shape, Heat& heat,
                 const std::vector<int>& aggregators) {
  const size_t row_bytes = shape.width * element_bytes(shape.type);
  const char* const keys = message.data[0].data();
  // The last one is the server.
  std::vector<uint32_t> place_of(shape.keys);
  std::vector<size_t> counts(aggregators.size() + 1, 0);
  for (size_t i = 0; i < shape.keys; ++i) {
    uint64_t key;
    std::memcpy(&key, keys + i * sizeof key, sizeof key);
    size_t place = aggregators.size();
    if (heat.touch(key)) {
      const size_t owner = ::ps::internal::HashedServer(key, aggregators.size());
      if (aggregators[owner] >= 0) place = owner;
    }
    place_of[i] = static_cast<uint32_t>(place);
    ++counts[place];
  }
  heat.end_push();
  CutPush cut;
  if (counts.back() == shape.keys) return cut;

  std::vector<::ps::Message*> to;
  for (size_t place = 0; place < counts.size(); ++place) {
    const bool is_server = place == aggregators.size();
    if (counts[place] == 0) {
      to.push_back(nullptr);
      continue;
    }
    ::ps::Message& part = is_server ? cut.straight : cut.parts[aggregators[place]];
    part = empty_copy(message, counts[place], row_bytes);
    to.push_back(&part);
  }
  std::vector<size_t> next(counts.size(), 0);
  for (size_t i = 0; i < shape.keys; ++i) {
    const size_t place = place_of[i], at = next[place]++;
    ::ps::Message& part = *to[place];
    std::memcpy(part.data[0].data() + at * sizeof(uint64_t), keys + i * sizeof(uint64_t),
                sizeof(uint64_t));
    std::memcpy(part.data[1].data() + at * row_bytes, message.data[1].data() + i * row_bytes,
                row_bytes);
  }
  return cut;
}

}  // namespace sumcast::ps
