#include "sparse/manifest.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "sparse/durable_file.h"

namespace sumcast::sparse {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kName = "manifest.json";
constexpr std::string_view kFormat = "sumcast sparse checkpoint 1";
/// Nobody wrote more than this: thousands of increments.
constexpr uint64_t kManifestBytesMax = uint64_t{64} << 20;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

Json to_json(const SavedFile& file) {
  return {{"name", file.name}, {"rows", file.rows}, {"bytes", file.bytes}, {"crc", file.crc}};
}

SavedFile file_from(const Json& json) {
  SavedFile file;
  json.at("name").get_to(file.name);
  json.at("rows").get_to(file.rows);
  json.at("bytes").get_to(file.bytes);
  json.at("crc").get_to(file.crc);
  return file;
}

Json to_json(const table::TableShape& shape) {
  return {{"width", shape.width},
          {"optimizer", table::name_of(shape.optimizer.kind)},
          {"initial", shape.optimizer.initial},
          {"init_scale", shape.init_scale},
          {"seed", shape.seed},
          {"admit_after", shape.life.admit_after},
          {"evict_after", shape.life.evict_after}};
}

table::TableShape shape_from(const Json& json) {
  table::TableShape shape;
  json.at("width").get_to(shape.width);
  const auto kind = table::optimizer_from_name(json.at("optimizer").get<std::string>());
  // Of a later version, perhaps: equal to no optimizer that could be asked for.
  shape.optimizer.kind = kind.value_or(static_cast<table::OptimizerKind>(UINT8_MAX));
  json.at("initial").get_to(shape.optimizer.initial);
  json.at("init_scale").get_to(shape.init_scale);
  json.at("seed").get_to(shape.seed);
  // Not in checkpoints of before rows came and went.
  shape.life.admit_after = json.value("admit_after", 0u);
  shape.life.evict_after = json.value("evict_after", 0u);
  return shape;
}

Json to_json(const Manifest& manifest) {
  Json parts = Json::array();
  for (const SavedPart& part : manifest.parts) {
    Json files = Json::array();
    for (const SavedFile& file : part.files) files.push_back(to_json(file));
    parts.push_back({{"number", part.number}, {"full", part.full}, {"files", std::move(files)}});
  }
  return {{"format", kFormat},         {"number", manifest.number},
          {"steps", manifest.steps},   {"shape", to_json(manifest.shape)},
          {"parts", std::move(parts)}, {"state", to_json(manifest.state)}};
}

Manifest manifest_from(const Json& json) {
  Manifest manifest;
  json.at("number").get_to(manifest.number);
  manifest.steps = json.value("steps", uint64_t{0});
  manifest.shape = shape_from(json.at("shape"));
  for (const Json& one : json.at("parts")) {
    SavedPart& part = manifest.parts.emplace_back();
    one.at("number").get_to(part.number);
    one.at("full").get_to(part.full);
    for (const Json& file : one.at("files")) part.files.push_back(file_from(file));
  }
  manifest.state = file_from(json.at("state"));
  return manifest;
}

uint32_t check_of(const Json& json) { return crc_of(bytes_of(json.dump())); }

bool is_plain(const SavedFile& file) {
  return !file.name.empty() && file.name.find('/') == std::string::npos;
}

/// Could a program of ours have written it?
bool is_sound(const Manifest& manifest) {
  if (manifest.parts.empty() || !is_plain(manifest.state)) return false;
  uint32_t before = 0;
  for (const SavedPart& part : manifest.parts) {
    if (part.full != (&part == &manifest.parts.front()) || part.number <= before) return false;
    if (!std::ranges::all_of(part.files, is_plain)) return false;
    before = part.number;
  }
  return before == manifest.number;
}

std::set<std::string> names_in(const Manifest& manifest) {
  std::set<std::string> names = {manifest.state.name};
  for (const SavedPart& part : manifest.parts) {
    for (const SavedFile& file : part.files) names.insert(file.name);
  }
  return names;
}

Result<std::string> read_text(const std::string& path, uint64_t bytes_max) {
  auto file = WholeFile::open(path);
  if (!file) return fail(file.error());
  if (file->bytes() > bytes_max) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("{}: {} bytes", path, file->bytes()));
  }
  std::string text(file->bytes(), '\0');
  if (auto read = file->read(std::as_writable_bytes(std::span(text))); !read) {
    return fail(read.error());
  }
  return text;
}

}  // namespace

std::string path_in(const std::string& directory, std::string_view name) {
  return fmt::format("{}/{}", directory, name);
}
std::string rows_name(uint32_t number, uint32_t server) {
  return fmt::format("{:06}.server-{}.rows", number, server);
}
std::string state_name(uint32_t number) { return fmt::format("{:06}.state", number); }

Result<std::optional<Manifest>> read_manifest(const std::string& directory) {
  const std::string path = path_in(directory, kName);
  auto text = read_text(path, kManifestBytesMax);
  if (!text && text.error().code == ErrorCode::kUnavailable) return std::nullopt;
  if (!text) return fail(text.error());
  const auto refuse = [&](std::string_view why) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: {}; take another checkpoint", path, why));
  };
  Json json = Json::parse(*text, nullptr, false);
  if (json.is_discarded() || !json.is_object()) return refuse("not a checkpoint's manifest");
  try {
    if (json.at("format").get<std::string>() != kFormat) {
      return refuse(fmt::format("not a \"{}\"", kFormat));
    }
    const auto check = json.at("check").get<uint32_t>();
    json.erase("check");
    if (check != check_of(json)) return refuse("it was altered or damaged");
    Manifest manifest = manifest_from(json);
    if (!is_sound(manifest)) return refuse("its parts do not make a checkpoint");
    return manifest;
  } catch (const Json::exception& error) {
    return refuse(error.what());
  }
}

Result<void> write_manifest(const std::string& directory, const Manifest& manifest) {
  Json json = to_json(manifest);
  json["check"] = check_of(json);
  auto file = DurableFile::create(path_in(directory, kName));
  if (!file) return fail(file.error());
  if (auto written = file->write(bytes_of(json.dump(1) + "\n")); !written) return written;
  return file->commit();
}

Result<void> check_shape(const Manifest& manifest, const table::TableShape& shape) {
  const table::TableShape& saved = manifest.shape;
  const auto refuse = [](std::string_view what, const auto& theirs, const auto& ours) {
    return fail(ErrorCode::kMismatch,
                fmt::format("the checkpoint has {} {}, this job {}: start it as the other was, or "
                            "without the checkpoint",
                            what, theirs, ours));
  };
  if (saved.width != shape.width) return refuse("rows of width", saved.width, shape.width);
  if (saved.optimizer.kind != shape.optimizer.kind) {
    const bool known = saved.optimizer.kind <= table::OptimizerKind::kFtrl;
    return refuse("optimizer", known ? table::name_of(saved.optimizer.kind) : "(unknown)",
                  table::name_of(shape.optimizer.kind));
  }
  // Rows that never moved are made again.
  if (saved.seed != shape.seed) return refuse("seed", saved.seed, shape.seed);
  if (saved.init_scale != shape.init_scale) {
    return refuse("init scale", saved.init_scale, shape.init_scale);
  }
  if (saved.optimizer.initial != shape.optimizer.initial) {
    return refuse("initial", saved.optimizer.initial, shape.optimizer.initial);
  }
  return {};
}

uint64_t fingerprint(const Manifest& manifest) {
  return table::hash_with(manifest.number, check_of(to_json(manifest)));
}

Result<SavedFile> write_state(const std::string& directory, uint32_t number,
                              std::string_view state) {
  SavedFile saved;
  saved.name = state_name(number);
  auto file = DurableFile::create(path_in(directory, saved.name));
  if (!file) return fail(file.error());
  if (auto written = file->write(bytes_of(state)); !written) return fail(written.error());
  if (auto done = file->commit(); !done) return fail(done.error());
  saved.bytes = file->bytes();
  saved.crc = file->crc();
  return saved;
}

Result<std::string> read_state(const std::string& directory, const Manifest& manifest) {
  const std::string path = path_in(directory, manifest.state.name);
  auto text = read_text(path, manifest.state.bytes);
  if (!text) return text;
  if (text->size() != manifest.state.bytes || crc_of(bytes_of(*text)) != manifest.state.crc) {
    return fail(ErrorCode::kInvalidArgument,
                path + ": it is not what the manifest says: damaged, or of another checkpoint");
  }
  return text;
}

void remove_outdated(const std::string& directory, const Manifest& before, const Manifest& now) {
  const std::set<std::string> kept = names_in(now);
  for (const std::string& name : names_in(before)) {
    std::error_code ignored;
    if (!kept.contains(name)) std::filesystem::remove(path_in(directory, name), ignored);
  }
}

}  // namespace sumcast::sparse
