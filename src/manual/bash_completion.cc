#include <fmt/format.h>
#include <fmt/ranges.h>

#include "manual/commands.h"
#include "manual/manual_page.h"

namespace sumcast::manual {
namespace {

/// Words that may follow a command.
std::vector<std::string> words_after(const CLI::App& app) {
  std::vector<std::string> words;
  for (const CLI::App* command : visible_commands(app)) words.push_back(command->get_name());
  for (const CLI::Option* option : visible_options(app)) {
    for (const std::string& name : option->get_lnames()) words.push_back("--" + name);
    for (const std::string& name : option->get_snames()) words.push_back("-" + name);
  }
  return words;
}

void append_cases(const CLI::App& app, std::string& paths, std::string& words) {
  words += fmt::format("    \"{}\") words=\"{}\" ;;\n", full_name(app),
                       fmt::join(words_after(app), " "));
  for (const CLI::App* command : visible_commands(app)) {
    paths += fmt::format("{}\"{}\"", paths.empty() ? "" : "|", full_name(*command));
    append_cases(*command, paths, words);
  }
}

}  // namespace

std::string bash_completion(const CLI::App& app) {
  std::string paths, words;
  append_cases(app, paths, words);
  const std::string name = app.get_name();
  std::string walk;
  if (!paths.empty()) {
    walk = fmt::format(
        "  for word in \"${{COMP_WORDS[@]:1:COMP_CWORD-1}}\"; do\n"
        "    case \"$path $word\" in\n"
        "      {}) path=\"$path $word\" ;;\n"
        "    esac\n"
        "  done\n",
        paths);
  }
  return fmt::format(
      "# Completion for {0} in bash; written by {0} itself.\n"
      "_{0}_words() {{\n"
      "  local path={0} word words=\n"
      "{1}"
      "  case \"$path\" in\n"
      "{2}"
      "  esac\n"
      "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"${{COMP_WORDS[COMP_CWORD]}}\")\n"
      "}}\n"
      "complete -o default -F _{0}_words {0}\n",
      name, walk, words);
}

}  // namespace sumcast::manual
