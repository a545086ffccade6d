#include "report/bench_rows.h"

#include <nlohmann/json.hpp>

namespace sumcast::report {
namespace {

using Json = nlohmann::ordered_json;

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

}  // namespace

std::string to_json_line(const BenchRow& row) {
  const Json json = {{"algo", row.algo},
                     {"collective", row.collective},
                     {"op", row.op},
                     {"type", row.type},
                     {"wire", row.wire},
                     {"workers", row.workers},
                     {"hosts", row.hosts},
                     {"rate_bps", row.rate_bps},
                     {"bytes", row.bytes},
                     {"time_us", row.time_us},
                     {"time_us_min", row.time_us_min},
                     {"time_us_max", row.time_us_max},
                     {"time_out_of_place_us", or_null(row.time_out_of_place_us)},
                     {"algbw_GBps", row.algbw_GBps},
                     {"busbw_GBps", row.busbw_GBps},
                     {"density", row.density},
                     {"bound_us", or_null(row.bound_us)},
                     {"tx_bytes_per_worker", or_null(row.tx_bytes_per_worker)},
                     {"cpu_s_per_GB", or_null(row.cpu_s_per_GB)},
                     {"retransmits", or_null(row.retransmits)},
                     {"wrong", or_null(row.wrong)}};
  // A name that is not UTF-8 must not throw; it is shown with replacement characters.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace sumcast::report
