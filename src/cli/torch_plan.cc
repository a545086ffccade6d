#include "cli/torch_plan.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/bench_plan.h"
#include "report/table.h"
#include "sumcast/element.hpp"

namespace sumcast::cli {
namespace {

std::vector<std::string> words_of(const std::string& list) {
  std::vector<std::string> words = split_at_commas(list);
  std::erase(words, "");
  return words;
}

Error no_such(std::string_view what, std::string_view word, std::string_view known) {
  return {ErrorCode::kInvalidArgument,
          fmt::format("no such {}: \"{}\"; there are {}", what, word, known)};
}

}  // namespace

Result<std::vector<TorchContender>> torch_contenders(const std::string& list) {
  std::vector<TorchContender> all;
  for (const std::string& word : words_of(list)) {
    const size_t colon = word.find(':');
    TorchContender one;
    one.algo = word.substr(0, colon);
    one.backend = one.algo == "gloo" ? "gloo" : "sumcast";
    if (one.algo != "gloo" && one.algo != "in-network" && one.algo != "direct") {
      return fail(no_such("contender", word, "gloo, in-network, direct"));
    }
    if (colon != std::string::npos) {
      one.wire = word.substr(colon + 1);
      if (one.backend == "gloo" || !wire_format_from_name(one.wire) || one.wire == "native") {
        return fail(no_such("wire format", word, "fp32, bf16, fp16, int8, fixed, for ours"));
      }
    }
    all.push_back(std::move(one));
  }
  if (all.empty()) return fail(no_such("contender", list, "gloo, in-network, direct"));
  return all;
}

Result<std::vector<std::string>> torch_models(const std::string& list) {
  std::vector<std::string> models = words_of(list);
  if (models.empty()) return fail(no_such("model", list, "resnet18, embedding"));
  for (const std::string& model : models) {
    if (model != "resnet18" && model != "embedding") {
      return fail(no_such("model", model, "resnet18, embedding"));
    }
  }
  return models;
}

Result<TorchRow> torch_row_from_line(std::string_view line) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  const auto is_number = [&](const char* key) {
    return json.contains(key) && json[key].is_number();
  };
  if (!json.is_object() || !is_number("step_us") || !is_number("exposed_comm_us") ||
      !json.contains("identical") || !json["identical"].is_boolean()) {
    return fail(ErrorCode::kInternal, fmt::format("rank 0 said \"{}\"", line));
  }
  if (!json["identical"].get<bool>()) {
    return fail(ErrorCode::kMismatch, "the ranks ended with different weights");
  }
  TorchRow row;
  row.step_us = json["step_us"];
  row.exposed_comm_us = json["exposed_comm_us"];
  return row;
}

std::string to_json_line(const TorchRow& row) {
  const nlohmann::ordered_json json = {{"model", row.model},
                                       {"backend", row.contender.backend},
                                       {"algo", row.contender.algo},
                                       {"wire", row.contender.wire},
                                       {"ranks", row.ranks},
                                       {"hosts", row.hosts},
                                       {"rate_bps", row.rate_bps},
                                       {"step_us", row.step_us},
                                       {"exposed_comm_us", row.exposed_comm_us}};
  return json.dump();
}

std::string torch_table(const std::vector<TorchRow>& rows) {
  using report::Align;
  report::Table table({{"model", Align::kLeft},
                       {"backend", Align::kLeft},
                       {"wire", Align::kLeft},
                       {"step", Align::kRight},
                       {"communication that shows", Align::kRight},
                       {"less by", Align::kRight}});
  const TorchRow* first = nullptr;
  for (const TorchRow& row : rows) {
    if (first == nullptr || first->model != row.model) first = &row;
    const std::string ratio =
        row.exposed_comm_us > 0
            ? fmt::format("{:.2f}x", first->exposed_comm_us / row.exposed_comm_us)
            : "all";
    table.add_row({row.model, row.contender.algo, row.contender.wire,
                   fmt::format("{:.1f} ms", row.step_us / 1e3),
                   fmt::format("{:.1f} ms", row.exposed_comm_us / 1e3), ratio});
  }
  return table.to_string();
}

}  // namespace sumcast::cli
