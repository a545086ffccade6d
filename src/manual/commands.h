// What of a command line is for people to see. Inside the room only.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace sumcast::manual {

/// Commands right under this one.
inline std::vector<const CLI::App*> visible_commands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* one) { return !one->get_group().empty(); });
}

/// In the order in which they were added; positional arguments among them.
inline std::vector<const CLI::Option*> visible_options(const CLI::App& app) {
  return app.get_options([](const CLI::Option* one) { return !one->get_group().empty(); });
}

/// "sumcast bench kernel".
inline std::string full_name(const CLI::App& app) {
  const CLI::App* parent = app.get_parent();
  return parent == nullptr ? app.get_name() : full_name(*parent) + " " + app.get_name();
}

}  // namespace sumcast::manual
