#include "cli/demo_method.h"

#include <algorithm>
#include <array>

namespace sumcast::cli {
namespace {

constexpr std::array<DemoMethod, 5> kMethods = {{
    {"in-network", Algorithm::kInNetwork, WireFormat::kNative, DaemonSite::kAggregator, true,
     "by sumcastd"},
    {"in-network-bf16", Algorithm::kInNetwork, WireFormat::kBF16, DaemonSite::kAggregator, false,
     "16-bit wire"},
    {"direct", Algorithm::kDirect, WireFormat::kNative, DaemonSite::kNone, true, "no daemon"},
    {"ring", Algorithm::kRing, WireFormat::kNative, DaemonSite::kNone, false, "baseline"},
    {"server", Algorithm::kServer, WireFormat::kNative, DaemonSite::kServer, true, "baseline"},
}};

}  // namespace

std::span<const DemoMethod> demo_methods() { return kMethods; }

std::optional<DemoMethod> demo_method_from_name(std::string_view name) {
  const auto found = std::ranges::find(kMethods, name, &DemoMethod::name);
  if (found == kMethods.end()) return std::nullopt;
  return *found;
}

std::string demo_method_names() {
  std::string names;
  for (const DemoMethod& method : kMethods) {
    if (!names.empty()) names += ", ";
    names += method.name;
  }
  return names;
}

}  // namespace sumcast::cli
