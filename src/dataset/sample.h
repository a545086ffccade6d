// Sparse data sets as one stream of samples: a label and (key, value) pairs.
//
//   libsvm   "label index:value ...", indices ascending from 0 or 1; "#" starts a comment.
//   criteo   40 columns between tabs, no header: label, 13 integers, 26 hexadecimal categories; a
//            column may be empty and then gives no feature.
//   avazu    CSV under a header with the columns id, click and hour (YYMMDDHH); all others are
//            categories.
//   text     a sample per line: its words and pairs of neighbouring words.
//   packages stanzas as `apt-cache dumpavail` prints them: words and pairs of the description's
//            first line; the label is the section.
//
// All may be gzip'ed. What becomes which key and value:
//   libsvm     field_key(0, index), the value.
//   integers   one key per column, sign(x) log(1 + |x|): counts that span six decades.
//   categories field_key(column, value), 1. Columns count from 0, the label's included. Of avazu's
//              hour only the hour of the day; the id is not used.
//   words      the key of the word or pair, how often it occurs. A package's name is not used.
// Keys of a sample are distinct; a sample may have none (an empty row trains the bias alone).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sumcast::dataset {

struct Feature {
  uint64_t key = 0;
  float value = 0;
  uint32_t field = 0;  ///< criteo, avazu: the column; libsvm: the index; 0 for words.
  bool operator==(const Feature&) const = default;
};

struct Sample {
  /// What the file says; for packages an index into label_names(). 0 for text.
  float label = 0;
  /// Samples that must not be divided between training and test have the same: the source package
  /// for packages, else the line's number.
  uint64_t group = 0;
  std::vector<Feature> features;
};

/// One thread at a time.
class SampleReader {
 public:
  virtual ~SampleReader() = default;

  /// Puts the next sample into `sample`. False at the end. A malformed line is kInvalidArgument,
  /// "FILE:LINE: what"; `sample` is then as it was.
  virtual Result<bool> next(Sample& sample) = 0;

  /// Names of the labels met so far, in the order of their first sample; empty where labels are
  /// numbers.
  virtual const std::vector<std::string>& label_names() const;
  /// Does the format say what a sample is? If not, all labels are 0.
  virtual bool has_labels() const { return true; }
};

/// Opens `source`: a path, or "debian-packages" for what apt knows on this machine.
///
/// @param format one of the names above, or "auto": by the first line.
/// Errors: kUnavailable if it is not there, kInvalidArgument for an unknown format, an empty file
/// under "auto", or a header that is not avazu's.
Result<std::unique_ptr<SampleReader>> open_samples(const std::string& source,
                                                   std::string_view format = "auto");

}  // namespace sumcast::dataset
