#include "runtime/prometheus.h"

#include <fmt/format.h>

#include <iterator>

namespace sumcast::runtime {
namespace {

void append_escaped(std::string& out, std::string_view text, bool quotes_too) {
  for (const char c : text) {
    if (c == '\\') {
      out += "\\\\";
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '"' && quotes_too) {
      out += "\\\"";
    } else {
      out += c;
    }
  }
}

MetricType type_of(CounterKind kind) {
  return kind == CounterKind::kPeak ? MetricType::kGauge : MetricType::kCounter;
}

}  // namespace

void PrometheusWriter::family(std::string_view name, MetricType type, std::string_view help) {
  const bool fresh = begun_.emplace(name).second;
  SUMCAST_ASSERT(fresh);
  family_ = name;
  fmt::format_to(std::back_inserter(text_), "# HELP {} ", name);
  append_escaped(text_, help, false);
  fmt::format_to(std::back_inserter(text_), "\n# TYPE {} {}\n", name,
                 type == MetricType::kCounter ? "counter" : "gauge");
}

void PrometheusWriter::sample(const MetricLabels& labels, uint64_t value) {
  line({}, labels, fmt::format("{}", value));
}

void PrometheusWriter::sample(const MetricLabels& labels, double value) {
  line({}, labels, fmt::format("{}", value));
}

void PrometheusWriter::line(std::string_view raw_labels, const MetricLabels& labels,
                            std::string_view value) {
  SUMCAST_ASSERT(!family_.empty());
  text_ += family_;
  if (!labels.empty() || !raw_labels.empty()) {
    text_ += '{';
    text_ += raw_labels;
    bool first = raw_labels.empty();
    for (const auto& [name, label] : labels) {
      if (!first) text_ += ',';
      first = false;
      fmt::format_to(std::back_inserter(text_), "{}=\"", name);
      append_escaped(text_, label, true);
      text_ += '"';
    }
    text_ += '}';
  }
  fmt::format_to(std::back_inserter(text_), " {}\n", value);
}

void PrometheusWriter::counters(std::span<const CounterSource> sources) {
  std::set<std::string_view> done;
  for (const CounterSource& first : sources) {
    for (const CounterInfo& head : first.table) {
      if (!done.insert(head.name).second) continue;
      family(head.name, type_of(head.kind), fmt::format("{} ({}).", head.help, head.unit));
      for (const CounterSource& source : sources) {
        SUMCAST_ASSERT(source.values.size() == source.table.size());
        for (const CounterInfo& row : source.table) {
          if (row.name != head.name) continue;
          line(row.labels, source.labels, fmt::format("{}", source.values[row.id]));
        }
      }
    }
  }
}

std::string prometheus_text(std::span<const CounterSource> sources) {
  PrometheusWriter writer;
  writer.counters(sources);
  return writer.text();
}

}  // namespace sumcast::runtime
