#include "cli/process_tree.h"

#include <signal.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <string>

namespace sumcast::cli {
namespace {

std::vector<std::pair<pid_t, pid_t>> all_processes() {
  std::vector<std::pair<pid_t, pid_t>> parents;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file(entry.path() / "stat");
    std::string text;
    if (std::getline(file, text)) parents.push_back(parent_from_stat(text));
  }
  return parents;
}

}  // namespace

std::pair<pid_t, pid_t> parent_from_stat(std::string_view text) {
  // "17 (name, with any bytes) S 4 ..."
  const size_t name_end = text.rfind(')');
  pid_t pid = 0, parent = 0;
  const auto first = std::from_chars(text.data(), text.data() + text.size(), pid);
  if (first.ec != std::errc{} || name_end == std::string_view::npos ||
      name_end + 4 >= text.size()) {
    return {0, 0};
  }
  const auto second =
      std::from_chars(text.data() + name_end + 4, text.data() + text.size(), parent);
  return second.ec == std::errc{} ? std::pair{pid, parent} : std::pair<pid_t, pid_t>{0, 0};
}

std::vector<pid_t> descendants(pid_t root, const std::vector<std::pair<pid_t, pid_t>>& parents) {
  std::vector<pid_t> found = {root};
  for (size_t i = 0; i < found.size(); ++i) {
    for (const auto& [pid, parent] : parents) {
      if (parent == found[i] && pid != 0 &&
          std::find(found.begin(), found.end(), pid) == found.end()) {
        found.push_back(pid);
      }
    }
  }
  return found;
}

void ProcessTree::pause() {
  stopped_ = descendants(root_, all_processes());
  stopped_.erase(stopped_.begin());  // The root.
  for (const pid_t pid : stopped_) ::kill(pid, SIGSTOP);
}

void ProcessTree::resume() {
  for (const pid_t pid : stopped_) ::kill(pid, SIGCONT);
  stopped_.clear();
}

}  // namespace sumcast::cli
