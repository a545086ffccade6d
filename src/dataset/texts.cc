#include "dataset/texts.h"

#include "dataset/debian_packages.h"
#include "dataset/key_hash.h"
#include "dataset/line_reader.h"

namespace sumcast::dataset {
namespace {

Result<void> each_package(const std::function<void(const Text&)>& use) {
  auto packages = open_debian_packages();
  if (!packages) return fail(packages.error());
  PackageStanza stanza;
  for (;;) {
    const auto more = packages->next(stanza);
    if (!more) return fail(more.error());
    if (!*more) return {};
    use({stanza.description, hash_bytes(stanza.source)});
  }
}

}  // namespace

Result<void> for_each_text(const std::string& source, const std::function<void(const Text&)>& use) {
  if (source == kDebianPackages) return each_package(use);
  auto file = open_file(source);
  if (!file) return fail(file.error());
  LineReader lines(source, std::move(*file));
  std::string_view line;
  for (;;) {
    const auto more = lines.next(line);
    if (!more) return fail(more.error());
    if (!*more) return {};
    use({line, lines.line_number()});
  }
}

}  // namespace sumcast::dataset
