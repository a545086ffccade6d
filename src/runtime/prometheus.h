// Metrics in Prometheus' text format, version 0.0.4: what a scraper reads at /metrics.
//
//   # HELP sumcast_rx_packets_total Datagrams received (packets).
//   # TYPE sumcast_rx_packets_total counter
//   sumcast_rx_packets_total{job="7"} 123
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/counters.h"

namespace sumcast::runtime {

inline constexpr std::string_view kPrometheusContentType =
    "text/plain; version=0.0.4; charset=utf-8";

enum class MetricType : uint8_t { kCounter, kGauge };

/// Names and values; values are escaped when written. Never unbounded ones, such as addresses.
using MetricLabels = std::vector<std::pair<std::string, std::string>>;

/// Counters of one table under some labels: one job, one thread, or none.
struct CounterSource {
  std::span<const CounterInfo> table;
  std::span<const uint64_t> values;  ///< A snapshot, by id.
  MetricLabels labels;
};

/// Writes families one after the other; the samples of a family follow its head.
class PrometheusWriter {
 public:
  /// Begins a family. `help` is one sentence. A name can begin only once (asserted): scrapers
  /// refuse a page that repeats one.
  void family(std::string_view name, MetricType type, std::string_view help);
  /// A sample of the family begun last.
  void sample(const MetricLabels& labels, uint64_t value);
  void sample(const MetricLabels& labels, double value);

  /// The families of all counters in `sources`, each name's samples together: several jobs with
  /// the same table give one family with a sample for each.
  void counters(std::span<const CounterSource> sources);

  /// The page so far; valid until the next call.
  const std::string& text() const { return text_; }

 private:
  void line(std::string_view raw_labels, const MetricLabels& labels, std::string_view value);

  std::string text_;
  std::string family_;
  std::set<std::string, std::less<>> begun_;
};

/// A page of counters and nothing else.
std::string prometheus_text(std::span<const CounterSource> sources);

}  // namespace sumcast::runtime
