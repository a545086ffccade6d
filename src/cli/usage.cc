#include "cli/usage.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <string_view>
#include <vector>

namespace sumcast::cli {
namespace {

constexpr std::string_view kUnsigned = "UINT";

std::vector<const CLI::App*> commands_under(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

/// The innermost command that the words name.
const CLI::App& command_of(const CLI::App& app, int argc, const char* const* argv) {
  const CLI::App* command = &app;
  for (int i = 1; i < argc; ++i) {
    const auto under = commands_under(*command);
    const auto named = std::ranges::find_if(
        under, [&](const CLI::App* one) { return one->get_name() == argv[i]; });
    if (named == under.end()) break;
    command = *named;
  }
  return *command;
}

std::string full_name(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name() : full_name(*parent) + " " + command.get_name();
}

/// Of the program, but those that it runs itself.
std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* one : commands_under(app)) {
    if (!one->get_group().empty()) names.push_back(one->get_name());
  }
  return names;
}

/// What an option of this type takes.
std::string_view expected_of(std::string_view type) {
  if (type.starts_with(kUnsigned)) return "a whole number from 0 up";
  if (type.starts_with("INT")) return "a whole number";
  if (type.starts_with("FLOAT")) return "a number";
  if (type.starts_with("BOOLEAN")) return "1 or 0";
  return "such a value";
}

/// The parser's "Could not convert: --workers = x" in words, with what the option takes.
std::string conversion_problem(const CLI::App& command, const std::string& text) {
  constexpr std::string_view kBegin = "Could not convert: ";
  const size_t equals = text.find(" = ");
  if (!text.starts_with(kBegin) || equals == std::string::npos) return text;
  const std::string name = text.substr(kBegin.size(), equals - kBegin.size());
  const CLI::Option* option = command.get_option_no_throw(name);
  const std::string type = option == nullptr ? "" : option->get_type_name();
  return fmt::format("{}: '{}' is not {}, or too large", name, text.substr(equals + 3),
                     expected_of(type));
}

std::string problem_of(const CLI::App& app, const CLI::App& command, int argc,
                       const char* const* argv, const CLI::ParseError& error) {
  const std::string text = error.what();
  const bool is_top = &command == &app;
  if (is_top && argc > 1 && argv[1][0] != '-') {
    return fmt::format("there is no command '{}'; choose from {}", argv[1],
                       fmt::join(command_names(app), ", "));
  }
  if (is_top && argc > 1) return fmt::format("there is no flag {} before a command", argv[1]);
  if (is_top) return fmt::format("name a command: {}", fmt::join(command_names(app), ", "));
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr) {
    return conversion_problem(command, text);
  }
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const size_t colon = text.find(": ");
    const std::string words = colon == std::string::npos ? text : text.substr(colon + 2);
    return fmt::format("it takes no '{}'", words);
  }
  return text;
}

}  // namespace

void refuse_signs(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (!option->get_type_name().starts_with(kUnsigned)) continue;
    option->check([](const std::string& value) {
      return value.starts_with('-') ? fmt::format("'{}' is not a whole number from 0 up", value)
                                    : std::string();
    });
  }
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; }))
    refuse_signs(*command);
}

std::string usage_problem(const CLI::App& app, int argc, const char* const* argv,
                          const CLI::ParseError& error) {
  const CLI::App& command = command_of(app, argc, argv);
  const std::string name = full_name(command);
  return fmt::format("{}: {}; see {} --help", name, problem_of(app, command, argc, argv, error),
                     name);
}

std::string finish_output() {
  errno = 0;
  const bool had_failed = std::ferror(stdout) != 0 || !std::cout;
  std::cout.flush();
  const bool fails = std::fflush(stdout) != 0 || !std::cout;
  if (!had_failed && !fails) return "";
  // An earlier write failed, and why is forgotten. The text is cut off anyway: one more byte tells.
  if (errno == 0) (void)!::write(STDOUT_FILENO, "\n", 1);
  return fmt::format("cannot write to standard output: {}",
                     errno != 0 ? std::strerror(errno) : "not all of it was taken");
}

}  // namespace sumcast::cli
