// The fields of every message, once, and the two walks over that list: writing and reading.
#include "control/messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>
#include <type_traits>

#include "control/wording.h"

namespace sumcast::control {
namespace {

using nlohmann::json;

/// One field: its name in JSON and where it lives.
template <typename Message, typename T>
struct Field {
  const char* name;
  T Message::*member;
};
/// Kind (empty for an object inside a message) and fields of a message.
template <typename... Fields>
struct Layout {
  const char* kind;
  std::tuple<Fields...> fields;
};
template <typename Message, typename... T>
constexpr auto layout(const char* kind, Field<Message, T>... fields) {
  return Layout<Field<Message, T>...>{kind, {fields...}};
}
template <typename Message, typename T>
constexpr Field<Message, T> field(const char* name, T Message::*member) {
  return {name, member};
}

/// The layout of each message. `kSchema<T>` of anything else does not exist.
template <typename Message>
inline constexpr int kSchema = 0;

template <>
inline constexpr auto kSchema<ServerHello> =
    layout<ServerHello>("hello", field("protocol", &ServerHello::protocol),
                        field("nonce", &ServerHello::nonce), field("sealed", &ServerHello::sealed));
template <>
inline constexpr auto kSchema<ClientHello> =
    layout<ClientHello>("hello", field("protocol", &ClientHello::protocol),
                        field("nonce", &ClientHello::nonce), field("sealed", &ClientHello::sealed));
template <>
inline constexpr auto kSchema<Member> = layout<Member>(
    "", field("rank", &Member::rank), field("host", &Member::host), field("name", &Member::name),
    field("shard", &Member::shard), field("mesh", &Member::mesh),
    field("address", &Member::address), field("tag", &Member::tag));
template <>
inline constexpr auto kSchema<GroupActivity> = layout<GroupActivity>(
    "", field("group", &GroupActivity::group), field("posted", &GroupActivity::posted),
    field("completed", &GroupActivity::completed), field("operation", &GroupActivity::operation),
    field("age_ms", &GroupActivity::age), field("tag", &GroupActivity::tag),
    field("left_ms", &GroupActivity::left));
template <>
inline constexpr auto kSchema<LeftGroup> = layout<LeftGroup>("", field("group", &LeftGroup::group),
                                                             field("completed",
                                                                   &LeftGroup::completed));
template <>
inline constexpr auto kSchema<Join> = layout<Join>(
    "join", field("job", &Join::job), field("rank", &Join::rank), field("world", &Join::world),
    field("host", &Join::host), field("name", &Join::name), field("shard", &Join::shard),
    field("mesh", &Join::mesh), field("tag", &Join::tag), field("join_timeout_ms", &Join::timeout));
template <>
inline constexpr auto kSchema<OpenGroup> = layout<OpenGroup>(
    "open_group", field("key", &OpenGroup::key), field("ranks", &OpenGroup::ranks),
    field("payload_bytes_max", &OpenGroup::payload_bytes_max),
    field("slots_wanted", &OpenGroup::slots_wanted), field("timeout_ms", &OpenGroup::timeout),
    field("alone", &OpenGroup::alone), field("leaders_of", &OpenGroup::leaders_of));
template <>
inline constexpr auto kSchema<CloseGroup> = layout<CloseGroup>("close_group",
                                                               field("group", &CloseGroup::group));
template <>
inline constexpr auto kSchema<Moves> = layout<Moves>("", field("failovers", &Moves::failovers),
                                                     field("returns", &Moves::returns));
template <>
inline constexpr auto kSchema<Heartbeat> = layout<Heartbeat>("heartbeat",
                                                             field("request", &Heartbeat::request),
                                                             field("groups", &Heartbeat::groups),
                                                             field("moves", &Heartbeat::moves));
template <>
inline constexpr auto kSchema<Overdue> = layout<Overdue>("overdue", field("group", &Overdue::group),
                                                         field("sequence", &Overdue::sequence),
                                                         field("operation", &Overdue::operation),
                                                         field("waited_ms", &Overdue::waited));
template <>
inline constexpr auto kSchema<Mismatch> = layout<Mismatch>("mismatch",
                                                           field("group", &Mismatch::group),
                                                           field("rank_a", &Mismatch::rank_a),
                                                           field("digest_a", &Mismatch::digest_a),
                                                           field("rank_b", &Mismatch::rank_b),
                                                           field("digest_b", &Mismatch::digest_b));
template <>
inline constexpr auto kSchema<Description> = layout<Description>(
    "description", field("group", &Description::group), field("request", &Description::request),
    field("sequence", &Description::sequence), field("text", &Description::text));
template <>
inline constexpr auto kSchema<GiveUp> = layout<GiveUp>("give_up", field("group", &GiveUp::group),
                                                       field("code", &GiveUp::code),
                                                       field("text", &GiveUp::text));
template <>
inline constexpr auto kSchema<Leave> = layout<Leave>("leave", field("groups", &Leave::groups));
template <>
inline constexpr auto kSchema<Welcome> =
    layout<Welcome>("welcome", field("incarnation", &Welcome::incarnation),
                    field("epoch", &Welcome::epoch), field("members", &Welcome::members),
                    field("shards", &Welcome::shards), field("heartbeat_ms", &Welcome::heartbeat));
template <>
inline constexpr auto kSchema<Refused> = layout<Refused>("refused", field("key", &Refused::key),
                                                         field("code", &Refused::code),
                                                         field("text", &Refused::text));
template <>
inline constexpr auto kSchema<GroupOpened> = layout<GroupOpened>(
    "group_opened", field("key", &GroupOpened::key), field("group", &GroupOpened::group),
    field("ranks", &GroupOpened::ranks), field("slot_base", &GroupOpened::slot_base),
    field("slot_count", &GroupOpened::slot_count),
    field("payload_bytes", &GroupOpened::payload_bytes), field("hosts", &GroupOpened::hosts));
template <>
inline constexpr auto kSchema<Describe> = layout<Describe>("describe",
                                                           field("group", &Describe::group),
                                                           field("request", &Describe::request),
                                                           field("sequence", &Describe::sequence),
                                                           field("digest", &Describe::digest));
template <>
inline constexpr auto kSchema<ReportNow> = layout<ReportNow>("report_now",
                                                             field("request", &ReportNow::request));
template <>
inline constexpr auto kSchema<Abort> = layout<Abort>("abort", field("group", &Abort::group),
                                                     field("code", &Abort::code),
                                                     field("text", &Abort::text),
                                                     field("ranks", &Abort::ranks));
template <>
inline constexpr auto kSchema<Left> = layout<Left>("left", field("rank", &Left::rank),
                                                   field("groups", &Left::groups));
template <>
inline constexpr auto kSchema<Waiting> = layout<Waiting>("waiting", field("group", &Waiting::group),
                                                         field("text", &Waiting::text));
template <>
inline constexpr auto kSchema<Goodbye> = layout<Goodbye>("goodbye");

template <typename T>
concept Message = !std::is_same_v<decltype(kSchema<T>), const int>;

// ---- writing ----------------------------------------------------------------------------------

template <Message T>
json object_of(const T& message);

json value_of(bool value) { return value; }
json value_of(uint32_t value) { return value; }
json value_of(uint64_t value) { return value; }
json value_of(const std::string& value) { return value.substr(0, kTextBytesMax); }
json value_of(milliseconds value) { return std::max<int64_t>(0, value.count()); }
json value_of(ErrorCode value) { return static_cast<int>(value); }
template <typename Tag, typename Integer>
json value_of(Id<Tag, Integer> value) {
  return value.value;
}
template <Message T>
json value_of(const T& value) {
  return object_of(value);
}
template <typename T>
json value_of(const std::optional<T>& value) {
  return value ? value_of(*value) : json(nullptr);
}
template <typename T>
json value_of(const std::vector<T>& values) {
  json list = json::array();
  for (const T& value : values) list.push_back(value_of(value));
  return list;
}

template <Message T>
json object_of(const T& message) {
  json object = json::object();
  if (*kSchema<T>.kind != '\0') object["kind"] = kSchema<T>.kind;
  std::apply([&](auto... field) { ((object[field.name] = value_of(message.*field.member)), ...); },
             kSchema<T>.fields);
  return object;
}

template <Message T>
std::string text_of(const T& message) {
  return object_of(message).dump(-1, ' ', false, json::error_handler_t::replace);
}

// ---- reading ----------------------------------------------------------------------------------

template <Message T>
bool read_object(const json& object, T& message, std::string& complaint);

bool read(const json& in, bool& out) {
  const bool* value = in.get_ptr<const bool*>();
  if (value != nullptr) out = *value;
  return value != nullptr;
}
template <typename Integer>
bool read_integer(const json& in, Integer& out) {
  if (!in.is_number_unsigned()) return false;
  const uint64_t value = *in.get_ptr<const uint64_t*>();
  if (value > static_cast<uint64_t>(std::numeric_limits<Integer>::max())) return false;
  out = static_cast<Integer>(value);
  return true;
}
bool read(const json& in, uint32_t& out) { return read_integer(in, out); }
bool read(const json& in, uint64_t& out) { return read_integer(in, out); }
bool read(const json& in, std::string& out) {
  const std::string* text = in.get_ptr<const std::string*>();
  // A text that was cut at the limit can triple when invalid bytes become U+FFFD.
  if (text == nullptr || text->size() > 3 * kTextBytesMax) return false;
  out = printable(*text);
  return true;
}
bool read(const json& in, milliseconds& out) {
  // A month is more than any deadline, and far from overflow in nanoseconds.
  constexpr uint64_t kMonth = 31ull * 24 * 3600 * 1000;
  uint64_t count = 0;
  if (!read_integer(in, count)) return false;
  out = milliseconds(static_cast<int64_t>(std::min(count, kMonth)));
  return true;
}
bool read(const json& in, ErrorCode& out) {
  uint32_t code = 0;
  if (!read_integer(in, code) || code < static_cast<uint32_t>(ErrorCode::kInvalidArgument) ||
      code > static_cast<uint32_t>(ErrorCode::kInternal)) {
    return false;
  }
  out = static_cast<ErrorCode>(code);
  return true;
}
template <typename Tag, typename Integer>
bool read(const json& in, Id<Tag, Integer>& out) {
  return read_integer(in, out.value);
}
template <Message T>
bool read(const json& in, T& out) {
  std::string ignored;
  return read_object(in, out, ignored);
}
template <typename T>
bool read(const json& in, std::optional<T>& out) {
  out.reset();
  return in.is_null() || read(in, out.emplace());
}
template <typename T>
bool read(const json& in, std::vector<T>& out) {
  if (!in.is_array()) return false;
  out.resize(in.size());
  for (size_t i = 0; i < in.size(); ++i) {
    if (!read(in[i], out[i])) return false;
  }
  return true;
}

template <typename T>
void read_field(const json& object, const char* name, T& out, std::string& complaint) {
  if (!complaint.empty()) return;
  const auto found = object.find(name);
  if (found == object.end()) {
    complaint = fmt::format("field \"{}\" is missing", name);
  } else if (!read(*found, out)) {
    complaint = fmt::format("field \"{}\" is not what it should be", name);
  }
}

template <Message T>
bool read_object(const json& object, T& message, std::string& complaint) {
  if (!object.is_object()) return false;
  std::apply(
      [&](auto... field) {
        (read_field(object, field.name, message.*field.member, complaint), ...);
        // "kind" itself was checked by the caller.
        const size_t expected = sizeof...(field) + (*kSchema<T>.kind != '\0' ? 1 : 0);
        if (complaint.empty() && object.size() != expected) complaint = "it has surplus fields";
      },
      kSchema<T>.fields);
  return complaint.empty();
}

/// Decodes into the alternative of `Variant` whose kind matches.
template <typename Variant, size_t Index = 0>
Result<Variant> read_variant(const json& object, const std::string& kind) {
  if constexpr (Index == std::variant_size_v<Variant>) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("a control message of the unknown kind \"{}\"", kind.substr(0, 40)));
  } else {
    using T = std::variant_alternative_t<Index, Variant>;
    if (kind != kSchema<T>.kind) return read_variant<Variant, Index + 1>(object, kind);
    T message;
    std::string complaint;
    if (!read_object(object, message, complaint)) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("a control message of kind \"{}\": {}", kind, complaint));
    }
    return Variant(std::move(message));
  }
}

/// Parses `body` as an object that has a kind, which it stores in `kind`.
Result<json> parse(std::string_view body, std::string& kind) {
  if (body.size() > kBodyBytesMax) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("a control message of {} bytes is too long", body.size()));
  }
  json object = json::parse(body, nullptr, false);
  if (object.is_discarded() || !object.is_object()) {
    return fail(ErrorCode::kInvalidArgument, "a control message is not a JSON object");
  }
  const auto found = object.find("kind");
  if (found == object.end() || !read(*found, kind)) {
    return fail(ErrorCode::kInvalidArgument, "a control message has no kind");
  }
  return object;
}

template <typename Variant>
Result<Variant> decode(std::string_view body) {
  std::string kind;
  const auto object = parse(body, kind);
  if (!object) return fail(object.error());
  return read_variant<Variant>(*object, kind);
}

/// A hello of another version may have other fields: only its number is read.
template <typename Hello>
Result<Hello> decode_hello(std::string_view body) {
  std::string kind;
  const auto object = parse(body, kind);
  if (!object) return fail(object.error());
  Hello other;
  const auto protocol = object->find("protocol");
  if (kind == "hello" && protocol != object->end() && read(*protocol, other.protocol) &&
      other.protocol != kProtocol) {
    return other;
  }
  auto hello = read_variant<std::variant<Hello>>(*object, kind);
  if (!hello) return fail(std::move(hello.error()));
  return std::get<0>(std::move(*hello));
}

}  // namespace

std::string encode(const ServerHello& message) { return text_of(message); }
std::string encode(const ClientHello& message) { return text_of(message); }
std::string encode(const ClientMessage& message) {
  return std::visit([](const auto& m) { return text_of(m); }, message);
}
std::string encode(const ServerMessage& message) {
  return std::visit([](const auto& m) { return text_of(m); }, message);
}

Result<ServerHello> decode_server_hello(std::string_view body) {
  return decode_hello<ServerHello>(body);
}
Result<ClientHello> decode_client_hello(std::string_view body) {
  return decode_hello<ClientHello>(body);
}
Result<ClientMessage> decode_client_message(std::string_view body) {
  return decode<ClientMessage>(body);
}
Result<ServerMessage> decode_server_message(std::string_view body) {
  return decode<ServerMessage>(body);
}

}  // namespace sumcast::control
