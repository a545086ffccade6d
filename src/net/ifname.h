// Which interfaces an operator means: the grammar that NCCL users know from NCCL_SOCKET_IFNAME.
//
//   eth,ib      names that begin with "eth" or "ib"
//   =eth0,ib1   exactly these names
//   ^docker,lo  all but names that begin so
//   ^=eth0      all but exactly this
//
// The marks stand in front of the whole list. A pure value; it knows no interface of this host.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sumcast::net {

class IfnameSelector {
 public:
  IfnameSelector() = default;  ///< Matches every name and singles out none.

  /// An empty text gives the default. kInvalidArgument if the text has marks but no names, or marks
  /// inside the list, where NCCL would silently take them for a part of a name.
  static Result<IfnameSelector> parse(std::string_view text);

  bool matches(std::string_view name) const;
  /// True if interfaces are named for use rather than excluded, so that what is usually left out
  /// (loopback, docker) is meant when it is named.
  bool names_interfaces() const { return !names_.empty() && !excludes_; }
  bool is_default() const { return names_.empty(); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  std::vector<std::string> names_;
  bool excludes_ = false;
  bool exact_ = false;
};

}  // namespace sumcast::net
