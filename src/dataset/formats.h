// Inside the room: one reader per format, and what they share.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "dataset/debian_packages.h"
#include "dataset/line_reader.h"
#include "dataset/sample.h"

namespace sumcast::dataset {

std::unique_ptr<SampleReader> make_libsvm_reader(LineReader lines);
std::unique_ptr<SampleReader> make_criteo_reader(LineReader lines);
std::unique_ptr<SampleReader> make_text_reader(LineReader lines);
std::unique_ptr<SampleReader> make_package_reader(PackageReader packages);
/// Reads the header.
Result<std::unique_ptr<SampleReader>> make_avazu_reader(LineReader lines);

/// The format that a file with this first line has.
std::string_view guess_format(std::string_view first_line);

/// Cuts at every `separator`; one more part than separators. Parts view `line`.
void split(std::string_view line, char separator, std::vector<std::string_view>& parts);

/// The whole of `text` as a finite number or integer in decimal; a leading "+" is allowed.
std::optional<float> parse_number(std::string_view text);
std::optional<int64_t> parse_integer(std::string_view text);

/// Features of a text's words and pairs, repetitions counted. Sorted by key.
void set_word_features(std::string_view text, std::vector<Feature>& features);

/// `text` for a message: shortened, and in quotes.
std::string quoted(std::string_view text);

}  // namespace sumcast::dataset
