#include "dataset/field_stream.h"

#include "base/assert.h"
#include "dataset/key_hash.h"

namespace sumcast::dataset {

FieldStream::FieldStream(uint64_t vocabulary, uint32_t fields, SkewLaw law)
    : vocabulary_(vocabulary), fields_(fields), law_(law) {
  SUMCAST_ASSERT(fields >= 1);
  SUMCAST_ASSERT(vocabulary >= fields);
}

uint64_t FieldStream::key_of(uint32_t field, uint64_t rank) { return field_key(field, rank); }

void FieldStream::next_batch(size_t rows, Prng& prng, std::vector<uint64_t>& keys) const {
  keys.clear();
  keys.reserve(rows * fields_);
  const uint64_t least = vocabulary_ / fields_;
  const uint64_t larger = vocabulary_ % fields_;  // So many fields have one key more.
  for (size_t row = 0; row < rows; ++row) {
    for (uint32_t field = 0; field < fields_; ++field) {
      const uint64_t size = least + (field < larger ? 1 : 0);
      keys.push_back(key_of(field, law_.draw_rank(prng, size)));
    }
  }
}

}  // namespace sumcast::dataset
