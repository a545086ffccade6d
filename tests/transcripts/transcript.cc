#include "transcript.h"

#include <cctype>
#include <charconv>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>

namespace sumcast::transcript {

using core::ProbeVerdict;
using core::ResultVerdict;
using core::Verdict;

namespace {

constexpr std::string_view kAnswerIndent = "    ";

const char* name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kAccepted:
      return "accepted";
    case Verdict::kCompleted:
      return "completed";
    case Verdict::kDuplicate:
      return "duplicate";
    case Verdict::kAnswer:
      return "answer";
    case Verdict::kStale:
      return "stale";
    case Verdict::kMismatch:
      return "mismatch";
    case Verdict::kForeign:
      return "foreign";
  }
  return "?";
}

const char* name_of(ProbeVerdict verdict) {
  switch (verdict) {
    case ProbeVerdict::kAnswer:
      return "answer";
    case ProbeVerdict::kAskProber:
      return "ask the prober";
    case ProbeVerdict::kWaiting:
      return "waiting";
    case ProbeVerdict::kStale:
      return "stale";
    case ProbeVerdict::kForeign:
      return "foreign";
  }
  return "?";
}

const char* name_of(ResultVerdict verdict) {
  switch (verdict) {
    case ResultVerdict::kAccepted:
      return "accepted";
    case ResultVerdict::kDuplicate:
      return "duplicate";
    case ResultVerdict::kStale:
      return "stale";
    case ResultVerdict::kForeign:
      return "foreign";
  }
  return "?";
}

std::string number(uint64_t value) { return std::to_string(value); }

std::string letter(uint32_t digest) { return std::string(1, static_cast<char>(digest)); }

std::string duration(Duration span) {
  const int64_t ns = span.count();
  if (ns % 1'000'000 == 0) return std::to_string(ns / 1'000'000) + "ms";
  if (ns % 1'000 == 0) return std::to_string(ns / 1'000) + "us";
  return std::to_string(ns) + "ns";
}

std::string clock(Instant at) {
  return at == Instant::never() ? "never" : duration(at - Instant{1});
}

std::string result_text(const core::StoredResult& result, uint16_t slot) {
  return "result slot=" + number(slot) + " phase=" + number(result.phase) +
         " op=" + letter(result.digest) + " chunk=" + number(result.chunk) +
         " number=" + number(result.number);
}

std::string outgoing_text(const core::Outgoing& next, char operation) {
  return "slot=" + number(next.slot) + " phase=" + number(next.phase) +
         " op=" + std::string(1, operation) + " chunk=" + number(next.chunk) +
         (next.repeat ? " (again)" : "");
}

}  // namespace

class Interpreter::Words {
 public:
  explicit Words(const std::string& line) {
    std::istringstream in(line);
    in >> command_;
    for (std::string word; in >> word;) {
      const size_t equals = word.find('=');
      if (equals == std::string::npos) {
        name_ = word;
      } else {
        values_[word.substr(0, equals)] = word.substr(equals + 1);
      }
    }
  }
  const std::string& command() const { return command_; }
  const std::string& name() const { return name_; }

  template <typename Integer = uint32_t>
  Integer integer(const std::string& key, std::optional<Integer> otherwise = {}) {
    const std::string* text = find(key);
    if (text == nullptr && otherwise) return *otherwise;
    if (text == nullptr) throw std::invalid_argument("missing " + key + "=");
    Integer value{};
    const char* end = text->data() + text->size();
    const auto parsed = std::from_chars(text->data(), end, value);
    if (parsed.ec != std::errc{} || parsed.ptr != end) {
      throw std::invalid_argument("not a number of that size: " + key + "=" + *text);
    }
    return value;
  }
  uint32_t digest() {
    const std::string* text = find("op");
    return static_cast<uint32_t>(text == nullptr ? 'A' : text->at(0));
  }
  Duration span(const std::string& key, Duration otherwise) {
    const std::string* text = find(key);
    return text == nullptr ? otherwise : parse_duration(*text);
  }
  static Duration parse_duration(const std::string& text) {
    size_t digits = 0;
    const int64_t count = std::stoll(text, &digits);
    const std::string unit = text.substr(digits);
    if (unit == "us") return std::chrono::microseconds(count);
    if (unit == "ms") return std::chrono::milliseconds(count);
    if (unit == "s") return std::chrono::seconds(count);
    if (unit == "ns" || text == "0") return Duration(count);
    throw std::invalid_argument("not a time: " + text);
  }
  void all_used() const {
    for (const auto& [key, value] : values_) {
      if (!used_.contains(key)) throw std::invalid_argument("unknown " + key + "=" + value);
    }
  }

 private:
  const std::string* find(const std::string& key) {
    used_.insert(key);
    const auto found = values_.find(key);
    return found == values_.end() ? nullptr : &found->second;
  }
  std::string command_, name_;
  std::map<std::string, std::string> values_;
  std::set<std::string> used_;
};

std::string Interpreter::run(std::string_view text) {
  std::string out;
  std::istringstream in{std::string(text)};
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(kAnswerIndent)) continue;
    out += line + "\n";
    if (line.empty() || !std::isalpha(static_cast<unsigned char>(line[0]))) continue;
    said_.clear();
    try {
      Words words(line);
      execute(words);
      words.all_used();
    } catch (const std::exception& problem) {
      say(std::string("error: ") + problem.what());
    }
    for (const std::string& answer : said_) out += std::string(kAnswerIndent) + answer + "\n";
  }
  return out;
}

void Interpreter::execute(Words& words) {
  if (words.command() == "at") {
    now_ = Instant{1} + Words::parse_duration(words.name());
  } else if (words.command() == "pool") {
    core::SlotPoolConfig config;
    config.members = words.integer<uint16_t>("members");
    config.slots = words.integer<uint16_t>("slots");
    config.operations = words.integer<uint16_t>("operations", config.operations);
    config.reorder_window = words.span("reorder", config.reorder_window);
    config.ask_interval = words.span("ask", config.ask_interval);
    pool_ = std::make_unique<Pool>(config);
  } else if (words.command() == "window") {
    core::SendWindowConfig config;
    config.slots = words.integer<uint16_t>("slots");
    config.operations = words.integer<uint16_t>("operations", config.operations);
    config.reorder_window = words.span("reorder", config.reorder_window);
    config.gap_interval = words.span("gap", config.gap_interval);
    windows_[words.name()] = std::make_unique<Window>(config);
  } else if (words.name().empty()) {
    if (!pool_) throw std::invalid_argument("no pool yet");
    execute_pool(words);
  } else {
    if (!windows_.contains(words.name())) throw std::invalid_argument("no window of that name");
    execute_window(words);
  }
}

void Interpreter::execute_pool(Words& words) {
  if (words.command() == "contribution") {
    core::Contribution in;
    in.member = words.integer<uint16_t>("member");
    in.slot = words.integer<uint16_t>("slot");
    in.phase = words.integer("phase");
    in.chunk = words.integer("chunk");
    in.total = words.integer("total");
    in.digest = words.digest();
    in.quiet = words.integer("quiet", std::optional(0u)) != 0;
    contribute(in);
  } else if (words.command() == "probe") {
    answer_probe(words);
  } else if (words.command() == "gap") {
    const uint16_t slot = pool_->pool.find_result(words.digest(), words.integer("number"));
    say(slot == core::OrderList::kNone ? "not kept" : result_text(pool_->pool.stored(slot), slot));
  } else if (words.command() == "asks") {
    std::vector<core::Ask> room(words.integer<size_t>("room", size_t{64}));
    BoundedList<core::Ask> asks(room);
    pool_->pool.on_timeout(now_, asks);
    say_asks(asks);
    say_pool_deadline();
  } else {
    throw std::invalid_argument("unknown command");
  }
}

void Interpreter::contribute(const core::Contribution& in) {
  core::SlotPool& pool = pool_->pool;
  const Verdict verdict = pool.on_contribution(in, now_);
  std::string line = name_of(verdict);
  if (verdict == Verdict::kAccepted) {
    line += ", " + number(pool.counted(in.slot)) + " of " + number(pool.config().members);
  }
  if (verdict == Verdict::kMismatch) {
    line += " with op=" + letter(pool.collecting_digest(in.slot)) + " of member " +
            number(pool.first_member(in.slot));
  }
  if (verdict == Verdict::kAnswer || verdict == Verdict::kCompleted) {
    line += ": " + result_text(pool.stored(in.slot), in.slot);
    for (uint16_t m = 0; m < pool.config().members; ++m) {
      const bool concerned = verdict == Verdict::kCompleted || m == in.member;
      if (concerned && !pool.wants_lanes(in.slot, m)) line += " (no lanes for " + number(m) + ")";
    }
  }
  say(line);
}

void Interpreter::answer_probe(Words& words) {
  std::vector<core::Ask> room(64);
  BoundedList<core::Ask> asks(room);
  const auto slot = words.integer<uint16_t>("slot");
  const ProbeVerdict verdict = pool_->pool.on_probe(words.integer<uint16_t>("member"), slot,
                                                    words.integer("phase"), now_, asks);
  std::string line = name_of(verdict);
  if (verdict == ProbeVerdict::kAnswer) line += ": " + result_text(pool_->pool.stored(slot), slot);
  say(line);
  say_asks(asks);
}

void Interpreter::say_asks(const BoundedList<core::Ask>& asks) {
  for (const core::Ask& ask : asks) {
    say("ask member=" + number(ask.member) + " slot=" + number(ask.slot) +
        " phase=" + number(pool_->pool.phase(ask.slot)));
  }
}

void Interpreter::say_pool_deadline() { say("next: " + clock(pool_->pool.next_deadline())); }

void Interpreter::execute_window(Words& words) {
  Window& w = *windows_[words.name()];
  if (words.command() == "submit") {
    if (w.window.full()) throw std::invalid_argument("the window is full");
    const uint32_t digest = words.digest(), total = words.integer("total");
    w.window.submit(digest, total, words.integer("first", std::optional(0u)));
    w.operations.emplace_back(static_cast<char>(digest), total);
  } else if (words.command() == "fill") {
    send(words, false);
  } else if (words.command() == "send") {
    send(words, true);
  } else if (words.command() == "result") {
    const core::StoredResult result{true, words.integer("phase"), words.digest(), 0,
                                    words.integer("number")};
    accept(w, result, words.integer<uint16_t>("slot"));
  } else if (words.command() == "again") {
    if (!pool_) throw std::invalid_argument("no pool yet");
    const auto slot = words.integer<uint16_t>("slot");
    accept(w, pool_->pool.stored(slot), slot);
  } else if (words.command() == "ask") {
    const bool heard = w.window.on_ask(words.integer<uint16_t>("slot"), words.integer("phase"));
    say(heard ? "will send it" : "ignored");
  } else if (words.command() == "timeout") {
    time_out(words);
  } else {
    throw std::invalid_argument("unknown command");
  }
}

void Interpreter::send(Words& words, bool reaches_pool) {
  Window& w = *windows_[words.name()];
  std::vector<core::Outgoing> room(64);
  BoundedList<core::Outgoing> out(room);
  const auto member =
      words.integer<uint16_t>("member", reaches_pool ? std::nullopt : std::optional<uint16_t>(0));
  if (reaches_pool && !pool_) throw std::invalid_argument("no pool yet");
  w.window.fill(now_, words.integer("limit", std::optional(64u)), out);
  if (out.empty()) say("nothing");
  for (const core::Outgoing& next : out) {
    const auto [operation, total] = w.operations.at(next.ticket);
    say(outgoing_text(next, operation));
    if (!reaches_pool) continue;
    core::Contribution in;
    in.member = member;
    in.slot = next.slot;
    in.phase = next.phase;
    in.digest = static_cast<uint32_t>(operation);
    in.chunk = next.chunk;
    in.total = total;
    contribute(in);
  }
}

void Interpreter::accept(Window& w, const core::StoredResult& result, uint16_t slot) {
  core::Delivery delivery;
  const ResultVerdict verdict =
      w.window.on_result(slot, result.phase, result.digest, result.number, now_, delivery);
  std::string line = name_of(verdict);
  if (verdict == ResultVerdict::kAccepted) {
    line += ": op=" + std::string(1, w.operations.at(delivery.ticket).first) +
            " chunk=" + number(delivery.chunk) + " after " + duration(delivery.since_sent);
    if (delivery.repeated) line += ", sent more than once";
    if (delivery.operation_complete) line += ", operation complete";
  }
  say(line);
}

void Interpreter::time_out(Words& words) {
  Window& w = *windows_[words.name()];
  const Duration rto = words.span("rto", std::chrono::milliseconds(10));
  std::vector<core::Want> probe_room(64), gap_room(64);
  BoundedList<core::Want> probes(probe_room), gaps(gap_room);
  w.window.on_timeout(now_, rto, probes, gaps);
  for (const core::Want& want : probes) {
    say("probe slot=" + number(want.slot) + " phase=" + number(want.phase_or_number) +
        " op=" + letter(want.digest));
  }
  for (const core::Want& want : gaps) {
    say("gap number=" + number(want.phase_or_number) + " op=" + letter(want.digest));
  }
  say("next: " + clock(w.window.next_deadline(rto)));
}

}  // namespace sumcast::transcript
