#include "cli/bench_protocol.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <vector>

namespace sumcast::cli {
namespace {

/// The numbers that follow a word; empty if there is anything else or not exactly `count`.
std::vector<uint64_t> numbers_after(std::string_view word, std::string_view line, size_t count) {
  std::vector<uint64_t> numbers;
  if (line.substr(0, word.size()) != word) return {};
  const char* at = line.data() + word.size();
  const char* const end = line.data() + line.size();
  while (at < end && *at == ' ') {
    uint64_t number = 0;
    const auto parsed = std::from_chars(at + 1, end, number);
    if (parsed.ec != std::errc{}) return {};
    numbers.push_back(number);
    at = parsed.ptr;
  }
  if (at != end || numbers.size() != count) return {};
  return numbers;
}

Result<Command> case_from(const std::vector<uint64_t>& n) {
  if (n[0] > static_cast<uint64_t>(Collective::kBarrier) || n[1] >= kElementTypes ||
      n[2] >= kReductions || n[3] >= kWireFormats) {
    return fail(ErrorCode::kInternal, "bench worker: a case with unknown enumerators");
  }
  Command command;
  command.kind = Command::Kind::kCase;
  command.bench = {static_cast<Collective>(n[0]),
                   static_cast<ElementType>(n[1]),
                   static_cast<Reduction>(n[2]),
                   static_cast<WireFormat>(n[3]),
                   static_cast<uint32_t>(n[4]),
                   n[5],
                   n[6],
                   static_cast<uint32_t>(n[7]),
                   static_cast<uint32_t>(n[8])};
  return command;
}

}  // namespace

std::string to_line(const Command& command) {
  const BenchCase& bench = command.bench;
  switch (command.kind) {
    case Command::Kind::kCase:
      return fmt::format("case {} {} {} {} {} {} {} {} {}", static_cast<int>(bench.collective),
                         static_cast<int>(bench.type), static_cast<int>(bench.reduction),
                         static_cast<int>(bench.wire), bench.root, bench.count, bench.bytes,
                         bench.operations, bench.density_millionths);
    case Command::Kind::kFill:
      return fmt::format("fill {}", command.in_place ? 1 : 0);
    case Command::Kind::kGo:
      return fmt::format("go {}", command.start.ns);
    case Command::Kind::kCheck:
      break;
  }
  return "check";
}

Result<Command> command_from_line(std::string_view line) {
  if (line == "check") return Command{};
  if (const auto n = numbers_after("case", line, 9); !n.empty()) return case_from(n);
  Command command;
  if (const auto n = numbers_after("fill", line, 1); !n.empty() && n[0] <= 1) {
    command.kind = Command::Kind::kFill;
    command.in_place = n[0] == 1;
    return command;
  }
  if (const auto n = numbers_after("go", line, 1); !n.empty()) {
    command.kind = Command::Kind::kGo;
    command.start.ns = static_cast<int64_t>(n[0]);
    return command;
  }
  return fail(ErrorCode::kInternal, fmt::format("bench worker: unknown command \"{}\"", line));
}

std::string to_line(const Reply& reply) {
  switch (reply.kind) {
    case Reply::Kind::kHello:
      return fmt::format("hello {}", reply.payload_bytes);
    case Reply::Kind::kReady:
      return "ready";
    case Reply::Kind::kDone:
      return fmt::format("done {} {} {}", reply.wall.count(), reply.cpu.count(), reply.retransmits);
    case Reply::Kind::kWrong:
      return fmt::format("wrong {}", reply.wrong);
    case Reply::Kind::kError:
      break;
  }
  std::string text = reply.error;
  std::replace(text.begin(), text.end(), '\n', ' ');
  return "error " + text;
}

Result<Reply> reply_from_line(std::string_view line) {
  constexpr std::string_view kError = "error ";
  Reply reply;
  if (line == "ready") return reply;
  if (line.substr(0, kError.size()) == kError) {
    reply.kind = Reply::Kind::kError;
    reply.error = line.substr(kError.size());
    return reply;
  }
  if (const auto n = numbers_after("hello", line, 1); !n.empty()) {
    reply.kind = Reply::Kind::kHello;
    reply.payload_bytes = static_cast<uint32_t>(n[0]);
    return reply;
  }
  if (const auto n = numbers_after("done", line, 3); !n.empty()) {
    reply.kind = Reply::Kind::kDone;
    reply.wall = Duration(static_cast<int64_t>(n[0]));
    reply.cpu = Duration(static_cast<int64_t>(n[1]));
    reply.retransmits = n[2];
    return reply;
  }
  if (const auto n = numbers_after("wrong", line, 1); !n.empty()) {
    reply.kind = Reply::Kind::kWrong;
    reply.wrong = n[0];
    return reply;
  }
  return fail(ErrorCode::kInternal, fmt::format("bench worker said \"{}\"", line));
}

}  // namespace sumcast::cli
