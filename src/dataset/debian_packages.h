// What apt knows of the packages that it could install, as stanzas of `apt-cache dumpavail`.
#pragma once

#include <string>

#include "base/result.h"
#include "dataset/line_reader.h"

namespace sumcast::dataset {

/// The command as messages and users write it.
inline constexpr const char* kDebianPackages = "debian-packages";

struct PackageStanza {
  std::string package;
  std::string source;       ///< Without a version; the package's own name where it has none.
  std::string section;      ///< As the archive writes it; "contrib/", "non-free/" are kept.
  std::string description;  ///< The first line.
};

/// One thread at a time.
class PackageReader {
 public:
  explicit PackageReader(LineReader lines) : lines_(std::move(lines)) {}

  /// The next stanza that has name, section and description. False at the end. A line that is
  /// neither "Field: value", nor a continuation, nor empty is an error with file and number.
  Result<bool> next(PackageStanza& stanza);

 private:
  LineReader lines_;
};

/// Reads `apt-cache dumpavail`. The error for a machine without it says so.
Result<PackageReader> open_debian_packages();

}  // namespace sumcast::dataset
