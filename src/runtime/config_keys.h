// The table of configuration keys: one row per knob, from which everything else follows.
//
// To add a knob: a member with its reason in Settings (runtime/config.h), a row here, and
// docs/config.md anew.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "runtime/config.h"

namespace sumcast::runtime {

/// Which member a key sets; its type says how text is read.
using SettingField = std::variant<bool Settings::*, uint32_t Settings::*, uint64_t Settings::*,
                                  double Settings::*, Duration Settings::*, std::string Settings::*,
                                  std::vector<std::string> Settings::*>;

struct ConfigKey {
  std::string_view name;  ///< In the file, with its table: "daemon.threads".
  const char* env;
  SettingField field;
  std::string_view unit;  ///< Empty where there is none, or where the value carries its own.
  std::string_view help;  ///< Sentences, with full stops.
  /// Variables of other libraries that apply if `env` is unset, in order; null ends.
  std::array<const char*, 2> fallback_env = {};
  /// Bounds of a count.
  uint64_t least = 0;
  uint64_t most = UINT64_MAX;
  /// Further check of a text, or of each item of a list; null: any.
  Result<void> (*check)(std::string_view text) = nullptr;
};

/// All keys, those of one table together, in the order of the documents.
std::span<const ConfigKey> config_keys();

/// Null if there is none.
const ConfigKey* find_config_key(std::string_view name);
/// The known key that `name` most likely means; empty if nothing is near.
std::string_view nearest_config_key(std::string_view name);

/// "switch" "count" "share" "duration" "text" "list".
std::string_view type_name(const ConfigKey& key);
/// Reads `text` into the key's member; unchanged on error.
Result<void> set_from_text(const ConfigKey& key, Settings& settings, std::string_view text);
/// The member's value as `set_from_text` reads it; lists separated by commas.
std::string text_of(const ConfigKey& key, const Settings& settings);

}  // namespace sumcast::runtime
