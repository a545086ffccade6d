#include "report/demo_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "report/demo_charts.h"
#include "report/html.h"
#include "report/svg.h"
#include "report/units.h"

namespace sumcast::report {
namespace {

/// A hundredth of a per cent is one of the 10,000 test images.
std::string format_accuracy(double share) { return fmt::format("{:.2f} %", 100.0 * share); }

double seconds(Duration span) { return std::chrono::duration<double>(span).count(); }

const DemoMethod* find(const DemoReportData& data, const std::string& name) {
  const auto found = std::ranges::find(data.methods, name, &DemoMethod::name);
  return found == data.methods.end() ? nullptr : &*found;
}

HtmlTable result_table(const DemoReportData& data) {
  HtmlTable table{"",
                  {{"method", Align::kLeft},
                   {"step"},
                   {"of it communication"},
                   {"sent per worker"},
                   {"test accuracy"},
                   {"weights", Align::kLeft},
                   {"", Align::kLeft}},
                  {},
                  {}};
  const DemoMethod* baseline = find(data, data.baseline);
  if (baseline) table.columns.insert(table.columns.begin() + 2, {"vs " + data.baseline});
  for (const DemoMethod& method : data.methods) {
    if (method.name == data.subject) table.highlight = table.rows.size();
    std::vector<std::string> cells = {method.name,
                                      format_duration(method.step),
                                      format_duration(method.communication),
                                      format_bytes(static_cast<double>(method.bytes_per_worker)),
                                      format_accuracy(method.accuracy),
                                      fmt::format("{:016x}", method.weights_hash),
                                      method.note};
    if (baseline) {
      const bool known = method.step.count() > 0;
      cells.insert(cells.begin() + 2,
                   known ? format_ratio(seconds(baseline->step) / seconds(method.step)) : "-");
    }
    table.rows.push_back(std::move(cells));
  }
  return table;
}

/// Methods whose final weights are the same bits, in groups of two and more, by order of running.
std::vector<std::vector<std::string>> equal_groups(const DemoReportData& data) {
  std::vector<std::vector<std::string>> groups;
  std::map<uint64_t, size_t> group_of;
  for (const DemoMethod& method : data.methods) {
    const auto [at, is_new] = group_of.try_emplace(method.weights_hash, groups.size());
    if (is_new) groups.emplace_back();
    groups[at->second].push_back(method.name);
  }
  std::erase_if(groups, [](const auto& names) { return names.size() < 2; });
  return groups;
}

std::string in_words(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  }
  return text;
}

std::string compared(const DemoMethod& subject, const DemoMethod& baseline) {
  const double ratio = seconds(baseline.step) / seconds(subject.step);
  if (ratio > 0.98 && ratio < 1.02) {
    return fmt::format("{} and {} took the same time per step within 2 %.", subject.name,
                       baseline.name);
  }
  return fmt::format("{} was {} than {}: {} against {} per step, {} the speed.", subject.name,
                     ratio > 1.0 ? "faster" : "slower", baseline.name,
                     format_duration(subject.step), format_duration(baseline.step),
                     format_ratio(ratio));
}

std::string accuracies_in_words(const std::vector<DemoMethod>& methods) {
  const auto low = std::ranges::min_element(methods, {}, &DemoMethod::accuracy);
  const auto high = std::ranges::max_element(methods, {}, &DemoMethod::accuracy);
  if (low->accuracy == high->accuracy) {
    return fmt::format("All reach the same test accuracy, {}.", format_accuracy(low->accuracy));
  }
  return fmt::format("Test accuracy lies between {} ({}) and {} ({}).",
                     format_accuracy(low->accuracy), low->name, format_accuracy(high->accuracy),
                     high->name);
}

/// What the figures say, one sentence per finding.
std::vector<std::string> readings(const DemoReportData& data) {
  std::vector<std::string> items;
  if (data.methods.empty()) return items;
  const DemoMethod* subject = find(data, data.subject);
  const DemoMethod* baseline = find(data, data.baseline);
  const auto timed = [](const DemoMethod* method) { return method && method->step.count() > 0; };
  if (timed(subject) && timed(baseline) && subject != baseline) {
    items.push_back(compared(*subject, *baseline));
  }
  if (timed(subject)) {
    items.push_back(fmt::format(
        "Of a step of {}, {} is communication; if the network were free, it would take {}.",
        subject->name, format_percent(seconds(subject->communication) / seconds(subject->step)),
        format_duration(subject->step - subject->communication)));
  }
  const auto groups = equal_groups(data);
  for (const auto& names : groups) {
    items.push_back(
        fmt::format("{} ended with the same weights, bit for bit: their curves lie on one another.",
                    in_words(names)));
  }
  if (data.methods.size() > 1 && (groups.empty() || groups[0].size() < data.methods.size())) {
    items.push_back(
        "Other weights mean that a method adds in another order or sends rounded values; whether "
        "that matters shows in loss and accuracy, not in the bits.");
  }
  items.push_back(accuracies_in_words(data.methods));
  return items;
}

std::vector<KeyFigure> key_figures(const DemoReportData& data) {
  std::vector<KeyFigure> figures;
  const DemoMethod* subject = find(data, data.subject);
  const DemoMethod* baseline = find(data, data.baseline);
  if (subject && baseline && subject != baseline && subject->step.count() > 0) {
    figures.push_back({format_ratio(seconds(baseline->step) / seconds(subject->step)),
                       fmt::format("speed of a step, {} against {}", subject->name, baseline->name),
                       fmt::format("{} and {}", format_duration(subject->step),
                                   format_duration(baseline->step))});
  }
  if (subject && data.gradient_bytes > 0) {
    figures.push_back({format_bytes(static_cast<double>(subject->bytes_per_worker)),
                       fmt::format("sent by each worker in a step, {}", subject->name),
                       fmt::format("the gradient has {}",
                                   format_bytes(static_cast<double>(data.gradient_bytes)))});
  }
  if (subject) {
    figures.push_back({format_accuracy(subject->accuracy), "test accuracy",
                       fmt::format("after {} epochs", data.epochs)});
  }
  size_t equal = 0;
  for (const auto& names : equal_groups(data)) equal = std::max(equal, names.size());
  if (data.methods.size() > 1) {
    figures.push_back({fmt::format("{} of {}", std::max<size_t>(equal, 1), data.methods.size()),
                       "methods with the same weights", "compared bit for bit after training"});
  }
  return figures;
}

std::string introduction(const DemoReportData& data) {
  const std::string links =
      data.link_bits_per_second > 0.0
          ? fmt::format("over links of {} each", format_bit_rate(data.link_bits_per_second))
          : "over unshaped links";
  return fmt::format(
      "{} workers trained the same neural network {} times {}, once with each way "
      "of adding their gradients. Everything else was equal: data, order, initial "
      "weights, seed.",
      data.workers, data.methods.size(), links);
}

}  // namespace

std::string demo_report_html(const DemoReportData& data) {
  HtmlPage page("Sumcast demo", introduction(data));
  page.key_figures(key_figures(data));
  page.section("What was run");
  page.paragraph(fmt::format(
      "A perceptron of {} parameters learns to tell apart ten kinds of clothing (Fashion-MNIST, {} "
      "training images). Each of {} workers takes {} images a step, for {} epochs; in every step "
      "the gradients, {} each, are averaged over all workers.",
      format_count(data.parameters), format_count(data.training_images), data.workers, data.batch,
      data.epochs, format_bytes(static_cast<double>(data.gradient_bytes))));
  page.table(result_table(data));
  page.section("What to read from this");
  page.list(readings(data));
  page.section("Where the time goes");
  page.figure(bar_chart(time_chart(data)),
              "All methods compute the same; what differs is how long a worker waits for the sum.",
              time_numbers(data));
  page.section("What each worker sends");
  page.figure(bar_chart(bytes_chart(data)),
              fmt::format("An aggregator needs each gradient once; a ring of {} workers moves "
                          "{:.3g} times that.",
                          data.workers, 2.0 * (data.workers - 1) / std::max(data.workers, 1)),
              bytes_numbers(data));
  page.section("How it learns");
  page.figure(line_chart(loss_chart(data)),
              fmt::format("Loss of the first worker's batches, averaged over {} steps. Lines that "
                          "coincide are drawn inside one another.",
                          kLossSmoothing),
              loss_numbers(data));
  page.section("Setup");
  std::vector<std::pair<std::string, std::string>> facts = {
      {"Command", data.command_line}, {"Started", data.started}, {"Version", data.version}};
  facts.insert(facts.end(), data.machine.begin(), data.machine.end());
  page.facts(facts);
  if (!data.caveats.empty()) {
    page.section("Before you quote this");
    page.list(data.caveats);
  }
  return std::move(page).finish(
      fmt::format("Written by sumcast {}. The page needs nothing from the network.", data.version));
}

std::vector<std::pair<std::string, std::string>> demo_report_charts(const DemoReportData& data) {
  return {{"loss.svg", svg_file(line_chart(loss_chart(data)))},
          {"time.svg", svg_file(bar_chart(time_chart(data)))},
          {"bytes.svg", svg_file(bar_chart(bytes_chart(data)))}};
}

}  // namespace sumcast::report
