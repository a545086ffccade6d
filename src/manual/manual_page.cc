#include "manual/manual_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <string_view>

#include "manual/commands.h"
#include "runtime/config_keys.h"

namespace sumcast::manual {
namespace {

/// Text that roff prints as it is.
std::string plain(std::string_view text) {
  std::string out;
  bool begins_line = true;
  for (const char c : text) {
    if (begins_line && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
    begins_line = c == '\n';
  }
  return out;
}

/// The same in quotes, for the argument of a macro.
std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : plain(text)) out += c == '"' ? std::string("\\(dq") : std::string(1, c);
  return out + "\"";
}

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  return text;
}

std::string paragraphs(std::string_view text) {
  std::string out;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    out += line.empty() ? ".PP\n" : plain(line) + "\n";
  }
  return out;
}

/// "-b, --minbytes TEXT=32M", names in bold, what they take in italics.
std::string heading_of(const CLI::Option& option) {
  std::string text;
  for (const std::string& name : option.get_snames()) {
    text += fmt::format("{}\\fB{}\\fR", text.empty() ? "" : ", ", plain("-" + name));
  }
  for (const std::string& name : option.get_lnames()) {
    text += fmt::format("{}\\fB{}\\fR", text.empty() ? "" : ", ", plain("--" + name));
  }
  if (text.empty()) return fmt::format("\\fI{}\\fR", plain(option.get_name(true)));
  // The type may carry a check in words: "UINT:INT in [1 - 64]"; one like "ADDR:PORT" does not.
  std::string type = option.get_type_name();
  if (type.find(' ') != std::string::npos) type.resize(std::min(type.size(), type.find(':')));
  if (option.get_type_size() != 0) text += fmt::format(" \\fI{}\\fR", plain(type));
  return text;
}

std::string options_text(const CLI::App& app) {
  std::string text;
  for (const CLI::Option* option : visible_options(app)) {
    if (option->check_name("--help") && app.get_parent() != nullptr) continue;  // They all have it.
    text += fmt::format(".TP\n{}\n{}", heading_of(*option), plain(option->get_description()));
    const std::string value = option->get_default_str();
    const bool takes_value = option->get_type_size() != 0;
    if (takes_value && !value.empty()) text += fmt::format(" (default: {})", plain(value));
    text += ".\n";
  }
  return text;
}

/// A footer: running text, and from "Example" on lines as they are.
std::string footer_text(const CLI::App& app) {
  std::string text;
  bool is_example = false;
  std::istringstream lines{app.get_footer()};
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    if (!is_example) text += ".PP\n";
    text += plain(line) + "\n";
    if (is_example || !line.starts_with("Example")) continue;
    is_example = true;
    text += ".PP\n.nf\n";
  }
  if (is_example) text += ".fi\n";
  return text;
}

std::string commands_text(const CLI::App& app) {
  std::string text;
  for (const CLI::App* command : visible_commands(app)) {
    text += fmt::format(".SS {}\n{}.\n", in_quotes(full_name(*command)),
                        plain(command->get_description()));
    text += options_text(*command) + footer_text(*command) + commands_text(*command);
  }
  return text;
}

std::string variables_text() {
  std::string text =
      "The programs and the library read these; flags overrule them, they overrule the "
      "configuration file.\n";
  for (const runtime::ConfigKey& key : runtime::config_keys()) {
    text += fmt::format(".TP\n\\fB{}\\fR\n{}\n", plain(key.env), plain(key.help));
  }
  return text;
}

}  // namespace

std::string manual_page(const CLI::App& app, const PageFacts& facts) {
  const std::string name = app.get_name();
  const bool has_commands = !visible_commands(app).empty();
  std::string text =
      fmt::format(".TH {} {} \"\" {} {}\n", in_quotes(upper(name)), facts.section,
                  in_quotes(name + " " + facts.version),
                  facts.section == 8 ? "\"System Administration\"" : "\"User Commands\"");
  std::string description = app.get_description();
  if (description.ends_with('.')) description.pop_back();  // Indexes of pages want none.
  text += fmt::format(".SH NAME\n{} \\- {}\n", plain(name), plain(description));
  text += fmt::format(".SH SYNOPSIS\n\\fB{}\\fR {}[\\fIOPTIONS\\fR]\n", plain(name),
                      has_commands ? "\\fICOMMAND\\fR " : "");
  text += ".SH DESCRIPTION\n" + paragraphs(facts.about);
  text += ".SH OPTIONS\n" + options_text(app);
  if (has_commands) text += ".SH COMMANDS\n" + commands_text(app);
  if (const std::string footer = footer_text(app); !footer.empty()) text += ".SH NOTES\n" + footer;
  text += ".SH ENVIRONMENT\n" + variables_text();
  text += ".SH \"EXIT STATUS\"\n" + paragraphs(facts.exit_codes);
  text += ".SH \"SEE ALSO\"\n" + plain(facts.see_also) + "\n";
  return text;
}

}  // namespace sumcast::manual
