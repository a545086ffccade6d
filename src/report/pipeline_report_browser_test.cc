// The page as a browser lays it out: headless Chromium, where it is installed.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "report/pipeline_report.h"

namespace sumcast::report {
namespace {

/// Left behind in the page's title: how many pictures have a size, and texts that stick out of
/// theirs.
constexpr const char* kScript = R"(<script>
const bad = [];
let drawn = 0;
for (const picture of document.querySelectorAll('svg')) {
  const box = picture.getBoundingClientRect();
  if (box.width > 100 && box.height > 50) ++drawn;
  for (const text of picture.querySelectorAll('text')) {
    const t = text.getBoundingClientRect();
    if (t.left < box.left - 1 || t.right > box.right + 1 || t.top < box.top - 1 ||
        t.bottom > box.bottom + 1) bad.push(text.textContent);
  }
}
document.title = `drawn ${drawn}, sticking out: ${bad.join('|')}.`;
</script>)";

PipelineReportData data() {
  PipelineReportData data;
  data.setting = "a machine";
  for (const char* heading : {"mlp, 4 workers", "transformer, 8 workers, delay 20 ms"}) {
    PipelineSection& section = data.sections.emplace_back();
    section.heading = heading;
    for (const char* label : {"sync, server, native", "priority, in-network, native",
                              "pipe K=2, in-network, bf16", "async, server, native"}) {
      section.entries.push_back(
          {label, 0.3, 0.28, 0.25, 0.41, 0.5, {{false, 1.0, 1.1}, {true, 1.1, 1.3}}});
      const double pace = static_cast<double>(section.entries.size());
      section.curves.push_back({label, {pace, 2 * pace, 3 * pace}, {0.6, 0.8, 0.85}});
    }
    section.target_accuracy = 0.84;
    section.training = "MLP 784-512-512-10 on Fashion-MNIST";
  }
  return data;
}

std::string output_of(const std::string& command) {
  std::string output;
  FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return output;
  char block[4096];
  while (const size_t got = std::fread(block, 1, sizeof(block), pipe)) output.append(block, got);
  ::pclose(pipe);
  return output;
}

TEST(PipelineReportInABrowser, EveryPictureIsDrawnAndNoTextSticksOut) {
  const std::string browser = output_of("command -v chromium chromium-browser 2>/dev/null");
  if (browser.empty()) GTEST_SKIP() << "chromium is not installed";
  char scratch[] = "/tmp/sumcast-page-XXXXXX";
  ASSERT_NE(::mkdtemp(scratch), nullptr);
  const std::string directory = scratch, page = directory + "/page.html";
  std::ofstream(page) << pipeline_report_html(data()) << kScript;
  const std::string dom = output_of(
      "timeout 60 " + browser.substr(0, browser.find('\n')) +
      " --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --window-size=1000,1400"
      " --user-data-dir=" +
      directory + "/profile --dump-dom file://" + page + " 2>/dev/null");
  std::filesystem::remove_all(directory);
  if (dom.empty()) GTEST_SKIP() << "chromium does not start here";
  const size_t title = dom.find("<title>");
  ASSERT_NE(title, std::string::npos);
  EXPECT_EQ(dom.substr(title + 7, dom.find("</title>") - title - 7), "drawn 6, sticking out: .");
}

}  // namespace
}  // namespace sumcast::report
