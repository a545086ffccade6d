#include "dataset/debian_packages.h"

#include <fmt/format.h>

namespace sumcast::dataset {
namespace {

/// "zlib (1:1.2.13)" -> "zlib".
std::string_view without_version(std::string_view source) {
  return source.substr(0, source.find(' '));
}

}  // namespace

Result<bool> PackageReader::next(PackageStanza& stanza) {
  stanza = {};
  const auto is_whole = [&] {
    return !stanza.package.empty() && !stanza.section.empty() && !stanza.description.empty();
  };
  std::string_view line;
  for (;;) {
    const auto more = lines_.next(line);
    if (!more) return fail(more.error());
    if (!*more || line.empty()) {
      if (is_whole()) {
        if (stanza.source.empty()) stanza.source = stanza.package;
        return true;
      }
      if (!*more) return false;
      stanza = {};
      continue;
    }
    if (line[0] == ' ' || line[0] == '\t') continue;  // A long description's, a list's.
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || colon == 0) {
      return fail(lines_.malformed("neither 'Field: value' nor a continuation of one"));
    }
    const std::string_view field = line.substr(0, colon);
    std::string_view value = line.substr(colon + 1);
    while (value.starts_with(' ')) value.remove_prefix(1);
    // "Description-en" is what archives before translations were split off have.
    if (field == "Package") stanza.package = value;
    if (field == "Source") stanza.source = without_version(value);
    if (field == "Section") stanza.section = value;
    if (field == "Description" || field == "Description-en") stanza.description = value;
  }
}

Result<PackageReader> open_debian_packages() {
  auto output = open_command({"apt-cache", "dumpavail"});
  if (!output) {
    return fail(output.error().within("debian-packages needs apt, as Debian and Ubuntu have it"));
  }
  return PackageReader(LineReader("apt-cache dumpavail", std::move(*output)));
}

}  // namespace sumcast::dataset
