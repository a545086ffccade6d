#include "dataset/key_stream.h"

#include <fmt/format.h>

#include "dataset/field_stream.h"
#include "dataset/text_stream.h"

namespace sumcast::dataset {
namespace {

// Fewer keys a field leave the top 0.1 % without a key in most of them.
constexpr uint64_t kKeysOfAFieldMin = 100;
constexpr uint32_t kFieldsMax = 10'000;

Result<void> check_fields(const KeyStreamOptions& options) {
  if (options.fields < 1 || options.fields > kFieldsMax) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} fields: not 1 to {}", options.fields, kFieldsMax));
  }
  if (options.vocabulary < kKeysOfAFieldMin * options.fields ||
      options.vocabulary > (uint64_t{1} << 48)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("a vocabulary of {} keys for {} fields: not {} a field to 2^48",
                            options.vocabulary, options.fields, kKeysOfAFieldMin));
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<KeyStream>> make_key_stream(std::string_view kind,
                                                   const KeyStreamOptions& options) {
  if (kind == "ctr" || kind == "flat") {
    if (auto checked = check_fields(options); !checked) return fail(checked.error());
    const SkewLaw law = kind == "ctr" ? SkewLaw::clicks() : SkewLaw::flat();
    return std::make_unique<FieldStream>(options.vocabulary, options.fields, law);
  }
  if (kind == "text") {
    auto stream = read_text_stream(options.text);
    if (!stream) return fail(stream.error());
    return std::move(*stream);
  }
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("no generator '{}': ctr, flat or text", kind));
}

}  // namespace sumcast::dataset
