#include "cli/demo_member.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "base/assert.h"

namespace sumcast::cli {
namespace {

std::string last_line_of(const std::string& path) {
  std::ifstream file(path);
  std::string line, last;
  while (std::getline(file, line)) {
    if (line.find_first_not_of(" \t\r") != std::string::npos) last = line;
  }
  return last;
}

/// What a process said may hold anything; it must not break the line or drive the terminal.
std::string on_one_line(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }, ' ');
  return text;
}

}  // namespace

std::string Member::obituary() const {
  SUMCAST_ASSERT(troubled());
  if (!complaint.empty()) return on_one_line(fmt::format("{} failed: {}", name, complaint));
  const std::string words = last_line_of(log);
  return on_one_line(fmt::format("{} died: {}{}", name, ended->describe(),
                                 words.empty() ? "" : "; its last words: " + words));
}

Result<Member> start_member(const lab::Cluster& cluster, lab::Node node, const std::string& name,
                            const std::vector<std::string>& command, const std::string& directory) {
  Member member;
  member.name = name;
  member.log = fmt::format("{}/{}.log", directory, name);
  lab::SpawnOptions spawning;
  spawning.input = lab::Redirect::pipe();
  spawning.output = lab::Redirect::pipe();
  spawning.errors = lab::Redirect::file(member.log);
  Result<lab::Process> process = cluster.spawn(node, command, spawning);
  if (!process) return fail(process.error());
  member.process = std::move(*process);
  return member;
}

}  // namespace sumcast::cli
