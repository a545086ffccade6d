#include "dataset/sample.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "dataset/formats.h"

namespace sumcast::dataset {
namespace {

constexpr std::array<std::string_view, 6> kFormats = {"auto",  "libsvm", "criteo",
                                                      "avazu", "text",   "packages"};

Result<LineReader> open_lines(const std::string& path) {
  auto file = open_file(path);
  if (!file) return fail(file.error());
  return LineReader(path, std::move(*file));
}

/// Opens the file once more than reading it would need, so that no reader knows of guessing.
Result<std::string_view> format_of(const std::string& path) {
  auto lines = open_lines(path);
  if (!lines) return fail(lines.error());
  std::string_view line;
  const auto more = lines->next(line);
  if (!more) return fail(more.error());
  if (!*more) return fail(ErrorCode::kInvalidArgument, fmt::format("{} is empty", path));
  return guess_format(line);
}

}  // namespace

Result<std::unique_ptr<SampleReader>> open_samples(const std::string& source,
                                                   std::string_view format) {
  if (std::find(kFormats.begin(), kFormats.end(), format) == kFormats.end()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("no format '{}': one of {}", format, fmt::join(kFormats, ", ")));
  }
  if (source == kDebianPackages) {
    if (format != "auto" && format != "packages") {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} is not in the format '{}'", source, format));
    }
    auto packages = open_debian_packages();
    if (!packages) return fail(packages.error());
    return make_package_reader(std::move(*packages));
  }
  if (format == "auto") {
    const auto guessed = format_of(source);
    if (!guessed) return fail(guessed.error());
    format = *guessed;
  }
  auto lines = open_lines(source);
  if (!lines) return fail(lines.error());
  if (format == "libsvm") return make_libsvm_reader(std::move(*lines));
  if (format == "criteo") return make_criteo_reader(std::move(*lines));
  if (format == "avazu") return make_avazu_reader(std::move(*lines));
  if (format == "packages") return make_package_reader(PackageReader(std::move(*lines)));
  return make_text_reader(std::move(*lines));
}

}  // namespace sumcast::dataset
