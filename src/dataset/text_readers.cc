// Plain text, and descriptions of packages.
#include <unordered_map>

#include "dataset/formats.h"
#include "dataset/key_hash.h"

namespace sumcast::dataset {
namespace {

class TextReader final : public SampleReader {
 public:
  explicit TextReader(LineReader lines) : lines_(std::move(lines)) {}

  Result<bool> next(Sample& sample) override {
    std::string_view line;
    do {
      const auto more = lines_.next(line);
      if (!more || !*more) return more;
      set_word_features(line, features_);
    } while (features_.empty());  // A line without a word is no sample.
    sample.label = 0;
    sample.group = lines_.line_number();
    std::swap(sample.features, features_);
    return true;
  }

  bool has_labels() const override { return false; }

 private:
  LineReader lines_;
  std::vector<Feature> features_;
};

class SectionReader final : public SampleReader {
 public:
  explicit SectionReader(PackageReader packages) : packages_(std::move(packages)) {}

  Result<bool> next(Sample& sample) override {
    PackageStanza stanza;
    const auto more = packages_.next(stanza);
    if (!more || !*more) return more;
    set_word_features(stanza.description, sample.features);
    sample.group = hash_bytes(stanza.source);
    // "non-free/games" is games: the archive's area says nothing about what a package does.
    const size_t slash = stanza.section.rfind('/');
    sample.label = static_cast<float>(
        label_of(slash == std::string::npos ? stanza.section : stanza.section.substr(slash + 1)));
    return true;
  }

  const std::vector<std::string>& label_names() const override { return names_; }

 private:
  size_t label_of(const std::string& section) {
    const auto [place, is_new] = labels_.emplace(section, names_.size());
    if (is_new) names_.push_back(section);
    return place->second;
  }

  PackageReader packages_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, size_t> labels_;
};

}  // namespace

std::unique_ptr<SampleReader> make_text_reader(LineReader lines) {
  return std::make_unique<TextReader>(std::move(lines));
}

std::unique_ptr<SampleReader> make_package_reader(PackageReader packages) {
  return std::make_unique<SectionReader>(std::move(packages));
}

}  // namespace sumcast::dataset
