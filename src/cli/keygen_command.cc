#include "cli/keygen_command.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string>

#include "auth/key_file.h"
#include "cli/exit_codes.h"

namespace sumcast::cli {

void add_keygen_command(CLI::App& app, int& exit_code) {
  CLI::App* const command = app.add_subcommand("keygen", "Make a key file for a job");
  command->footer(
      "It holds 32 random bytes in hex. Copy it to all hosts of the job, mode 0600, and name it "
      "in\n"
      "SUMCAST_KEY_FILE there and in sumcastd --key-file.\n"
      "Example:\n"
      "  sumcast keygen job.key");
  auto path = std::make_shared<std::string>();
  command->add_option("FILE", *path, "To be created, readable by you alone")->required();
  command->callback([path, &exit_code] {
    const Result<void> written = auth::write_key_file(*path);
    exit_code = written ? 0 : kExitUsage;
    if (!written) fmt::print(stderr, "sumcast keygen: {}\n", written.error().what);
  });
}

}  // namespace sumcast::cli
