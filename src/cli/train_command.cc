#include "cli/train_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <future>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "auth/secret.h"
#include "cli/exit_codes.h"
#include "cli/train_compare.h"
#include "cli/train_worker.h"
#include "lab/interrupt.h"
#include "report/progress.h"
#include "report/table.h"
#include "runtime/clock.h"
#include "runtime/environment.h"
#include "sparse/server.h"

namespace sumcast::cli {
namespace {

/// What rank 0 shows.
class TrainShow {
 public:
  TrainShow(const TrainOptions& options, const sparse::Options& job, const TrainPosition& from)
      : options_(options),
        progress_(
            report::probe_terminal(STDERR_FILENO, !runtime::environment("NO_COLOR").has_value())) {
    progress_.expect_bars(static_cast<int>(options.epochs));
    if (!job.restore || options.json) return;
    fmt::print("checkpoint {} of {}: on with epoch {}, step {}\n", job.restore->number,
               options.checkpoint, from.epoch, from.step + 1);
  }

  void begin(uint32_t epoch, uint64_t steps) {
    progress_.begin(fmt::format("epoch {}", epoch), steps, runtime::monotonic_now());
  }
  void on_step(uint64_t step) { progress_.update(step, runtime::monotonic_now()); }
  void end(const TrainEpoch& epoch) {
    progress_.finish(runtime::monotonic_now());
    epochs_.push_back(epoch);
    if (!options_.json) return;
    nlohmann::ordered_json json = {
        {"epoch", epoch.epoch},         {"train_loss", epoch.train_loss},
        {"test_loss", epoch.test_loss}, {"top_1", epoch.top_1},
        {"seconds", epoch.seconds},     {"steps", epoch.steps},
        {"hot_share", epoch.hot_share}, {"hot_shares", epoch.hot_shares},
        {"swaps", epoch.swaps},         {"swapped_keys", epoch.swapped_keys}};
    if (options_.staleness != 0) json["staleness"] = options_.staleness;
    if (options_.asynchronous) json["asynchronous"] = true;
    if (epoch.auc != 0) json["auc"] = epoch.auc;
    fmt::print("{}\n", json.dump());
    std::fflush(stdout);
  }

  void finish(const std::string& data, size_t hot_keys, const sparse::Seat& seat) const {
    tell_losses(seat);
    if (options_.json) return;
    if (epochs_.empty()) {
      fmt::print("nothing to train: the checkpoint has {} epochs; ask for more (--epochs)\n",
                 options_.epochs);
      return;
    }
    using report::Align;
    const bool has_auc = epochs_.front().auc != 0;
    report::Table table({{"epoch", Align::kRight},
                         {"train loss", Align::kRight},
                         {"test loss", Align::kRight},
                         {has_auc ? "AUC" : "top-1", Align::kRight},
                         {"time per step", Align::kRight}});
    for (const TrainEpoch& one : epochs_) {
      table.add_row(
          {fmt::format("{}", one.epoch), fmt::format("{:.4f}", one.train_loss),
           fmt::format("{:.4f}", one.test_loss),
           has_auc ? fmt::format("{:.4f}", one.auc) : fmt::format("{:.2f} %", 100 * one.top_1),
           fmt::format("{:.2f} ms", 1e3 * one.seconds / static_cast<double>(one.steps))});
    }
    uint64_t swaps = 0;
    for (const TrainEpoch& one : epochs_) swaps += one.swaps;
    fmt::print("{}: {}\n{}", options_.data, data, table.to_string());
    fmt::print("{} workers, {} server{}; {} hot keys take {:.0f} % of the gradients{}\n",
               options_.workers, options_.servers, options_.servers == 1 ? "" : "s", hot_keys,
               100 * epochs_.back().hot_share,
               swaps == 0 ? std::string() : fmt::format("; {} changes of the hot set", swaps));
  }

 private:
  /// Aggregators that went away.
  void tell_losses(const sparse::Seat& seat) const {
    if (seat.reasons().empty()) return;
    if (options_.json) {
      const nlohmann::ordered_json json = {{"failovers", seat.failovers()},
                                           {"returns", seat.returns()},
                                           {"reasons", seat.reasons()},
                                           {"now", seat.place()}};
      fmt::print("{}\n", json.dump());
      return;
    }
    for (const std::string& reason : seat.reasons()) fmt::print("lost on the way: {}\n", reason);
    const std::string back = seat.returns() == 0 ? "" : fmt::format("; {} returns", seat.returns());
    fmt::print("sums were made by {} in the end{}\n", seat.place(), back);
  }

  const TrainOptions& options_;
  report::Progress progress_;
  std::vector<TrainEpoch> epochs_;
};

/// What all members of this process share.
struct TrainJob {
  const TrainOptions& options;
  std::unique_ptr<TrainSubject> subject;
  sparse::Options sparse;
  HotChoice hot;
};

Result<TrainJob> prepare(const TrainOptions& options) {
  if (auto fine = options.validate(); !fine) return fail(fine.error());
  auto subject = make_train_subject(options);
  if (!subject) return fail(subject.error());
  auto job = options.job((*subject)->width(), (*subject)->init_scale());
  if (!job) return fail(job.error());
  if (auto opened = open_checkpoints(options, *job); !opened) return fail(opened.error());
  const hotset::Corpus sample = (*subject)->sample();
  job->segments = sparse::segments_for(distinct_keys(sample, options.batch), job->servers,
                                       job->shape, job->wire);
  job->shape.rows_max = sparse::segment_rows_max(options.max_rows, *job);
  HotChoice hot = choose_hot(sample, options, *job);
  return TrainJob{options, std::move(*subject), *job, std::move(hot)};
}

/// Seats only where there is something to go on with.
template <typename Member>
auto make_member(sparse::Seat& seat, const TrainJob& job) {
  return seat.has_standby() ? Member::create(seat, job.sparse)
                            : Member::create(seat.context(), job.sparse);
}

Result<void> work(sparse::Seat& seat, const TrainJob& job) {
  const uint32_t rank = seat.context().rank();
  auto rows = make_member<sparse::Worker>(seat, job);
  if (!rows) return fail(rows.error());
  if (auto set = (*rows)->set_hot(job.hot.keys); !set) return set;
  TrainWorker worker(**rows, *job.subject, job.options, job.sparse, job.hot, rank);
  auto position = first_position(job.options, job.sparse, worker.dense(), rank);
  if (!position) return fail(position.error());
  std::optional<TrainShow> show;
  if (rank == 0) show.emplace(job.options, job.sparse, *position);
  for (; position->epoch <= job.options.epochs; *position = {.epoch = position->epoch + 1}) {
    if (show) show->begin(position->epoch, worker.steps());
    auto result = worker.run_epoch(*position, [&](uint64_t step) {
      if (show) show->on_step(step);
    });
    if (!result) return fail(result.error());
    if (show) show->end(*result);
    if (auto saved = worker.end_epoch(position->epoch); !saved) return saved;
  }
  if (auto done = (*rows)->set_hot({}); !done) return done;  // Servers have all rows in the end.
  if (show) show->finish(job.subject->describe(), job.hot.keys.size(), seat);
  return job.subject->finish(**rows, show.has_value());
}

Result<void> be_member(const Options& options, const TrainJob& job) {
  auto seat = sparse::Seat::join(options, !job.options.require_aggregator);
  if (!seat) return fail(seat.error());
  if (options.rank < job.sparse.workers) return work(**seat, job);
  auto server = make_member<sparse::Server>(**seat, job);
  if (!server) return fail(server.error());
  return (*server)->run();
}

/// All members as threads of this process.
Result<void> run_alone(const TrainJob& job) {
  Options options;
  options.job = "train";
  options.world = job.sparse.workers + job.sparse.servers;
  options.one_rank_per_host = true;  // Rows are summed by datagrams.
  auth::fill_random(options.key.emplace());
  std::promise<std::string> listening;
  const std::shared_future<std::string> address = listening.get_future().share();
  std::vector<Result<void>> outcomes(options.world);
  std::vector<std::thread> threads;
  std::once_flag told;
  const auto tell = [&](const std::string& where) {
    std::call_once(told, [&] { listening.set_value(where); });
  };
  for (uint32_t rank = 0; rank < options.world; ++rank) {
    threads.emplace_back([&, rank, mine = options]() mutable {
      mine.rank = rank;
      if (rank == 0) {
        mine.coordinator = "127.0.0.1:0";
        mine.on_listening = tell;
      } else {
        mine.coordinator = address.get();
        if (mine.coordinator.empty()) return;  // Rank 0 did not get so far.
      }
      outcomes[rank] = be_member(mine, job);
      if (rank == 0) tell("");
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Result<void>& outcome : outcomes) {
    if (!outcome) return outcome;
  }
  return {};
}

Result<void> run_train(TrainOptions& options) {
  auto member = Options::from_environment();
  const bool alone = !member || member->world <= 1;
  if (!alone) {
    if (options.servers >= member->world) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("--servers {}: the launcher started {} processes; fewer of them can "
                              "be servers",
                              options.servers, member->world));
    }
    options.workers = member->world - options.servers;
    member->one_rank_per_host = true;
  }
  auto job = prepare(options);
  if (!job) return fail(job.error());
  return alone ? run_alone(*job) : be_member(*member, *job);
}

int outcome_of(const Result<void>& done) {
  if (done) return 0;
  fmt::print(stderr, "sumcast train: {}\n", done.error().what);
  return exit_code_of(done.error());
}

int run_command(TrainOptions& options, const CompareFlags& compare) {
  if (!compare.wanted) return outcome_of(run_train(options));
  const lab::ScopedInterrupt interrupt;
  const Result<void> done = run_comparison(options, compare);
  const int signal = lab::ScopedInterrupt::signal_number();
  if (signal == 0) return outcome_of(done);
  fmt::print(stderr, "sumcast train: interrupted\n");
  return 128 + signal;
}

void add_model_options(CLI::App& command, TrainOptions& options) {
  command.add_option("--factors", options.factors, "Of fm and deepfm");
  command.add_option("--hidden", options.hidden, "Layers of deepfm")->default_str(options.hidden);
  command.add_option("--dense-rate", options.dense_rate, "Learning rate of deepfm's layers");
  command.add_option("--vector", options.vector_width, "Width of word2vec's vectors");
  command.add_option("--window", options.window, "word2vec: words on either side");
  command.add_option("--negatives", options.negatives, "word2vec: drawn words for each real one");
  command.add_option("--min-count", options.count_min, "word2vec: rarer words are left out");
  command.add_option("--thin", options.thin, "word2vec: frequent words are thinned out; 0: none");
  command.add_option("--vectors", options.vectors, "word2vec: a file for the vectors, as text");
  command.add_option("--nearest", options.nearest, "word2vec: print the words most like this one");
}

void add_row_options(CLI::App& command, TrainOptions& options) {
  command.add_option("--admit-after", options.admit_after,
                     "Updates of a key that are dropped before it gets a row");
  command.add_option("--evict-after", options.evict_after,
                     "Steps without update after which a key is as new and its row free; 0: never");
  command.add_option("--max-rows", options.max_rows,
                     "Of all servers, shared evenly; full, the row updated longest ago makes room "
                     "(with --evict-after). 0: no limit");
}

void add_safety_options(CLI::App& command, TrainOptions& options) {
  command.add_option("--checkpoint", options.checkpoint,
                     "Write checkpoints into this directory, which all members share");
  command.add_option("--checkpoint-every", options.checkpoint_every,
                     "Steps between checkpoints; 0: after each epoch only");
  command.add_flag("--resume", options.resume, "Go on from the directory's checkpoint, if any");
  command.add_flag("--require-aggregator", options.require_aggregator,
                   "End with an error if sumcastd goes away, instead of going on without it");
}

void add_compare_options(CLI::App& command, CompareFlags& compare) {
  CLI::Option* const wanted = command.add_flag(
      "--compare", compare.wanted,
      "Train over servers alone and with hot keys, in namespaces: time to one loss");
  command.add_option("--link", compare.rate, "--compare: of each member, such as 100mbit")
      ->needs(wanted);
  command.add_option("--until-loss", compare.until_loss, "--compare: on held-out data")
      ->needs(wanted);
  command
      .add_option("--repeats", compare.repeats,
                  "--compare: trainings each way, by turns; medians, least and most are printed")
      ->check(CLI::Range(1, 100))
      ->needs(wanted);
}

}  // namespace

void add_train_command(CLI::App& app, int& exit_code) {
  CLI::App* const command =
      app.add_subcommand("train", "Train a sparse model: workers, servers, hot keys");
  auto options = std::make_shared<TrainOptions>();
  command->footer(
      "Examples:\n"
      "  sumcast train\n"
      "  sumcast train --model deepfm --data clicks.tsv --workers 8 --servers 2\n"
      "  sumcast train --checkpoint /shared/run7 --checkpoint-every 500 --resume\n"
      "  sumcast train --compare --link 100mbit\n"
      "  mpirun -n 10 -x MASTER_ADDR=node1 -x MASTER_PORT=29500 -x SUMCAST_KEY_FILE=job.key \\\n"
      "    sumcast train --model lr --data clicks.svm --servers 2");
  command
      ->add_option("--data", options->data,
                   "A file, debian-packages, or a generated click log: ctr, ctr-drift")
      ->default_str(options->data);
  command->add_option("--rows", options->rows, "Of ctr and ctr-drift");
  command->add_option("--format", options->format, "auto, libsvm, criteo, avazu, text, packages")
      ->default_str(options->format);
  command->add_option("--test", options->test, "A file to test on, instead of a share of the data");
  command->add_option("--test-share", options->test_share, "Of the data, kept for testing");
  command->add_option("--model", options->model, "lr, fm, deepfm, softmax, word2vec")
      ->default_str(options->model);
  add_model_options(*command, *options);
  command->add_option("--optimizer", options->optimizer, table::optimizer_names())
      ->default_str(options->optimizer);
  command->add_option("--rate", options->rate, "Learning rate; 0: what suits the model");
  command->add_option("--epochs", options->epochs, "Passes over the data");
  command->add_option("--batch", options->batch, "Samples of each worker in a step");
  command->add_option("--workers", options->workers, "Without a launcher")
      ->check(CLI::Range(1, 64));
  command
      ->add_option("--servers", options->servers,
                   "Hold the rows; under a launcher the last "
                   "ranks")
      ->check(CLI::Range(1, 64));
  command->add_option("--hot", options->hot, "Keys summed by the aggregator: auto, or how many")
      ->default_str(options->hot);
  command->add_option("--sample", options->sample, "Of the data, that hot keys are chosen from");
  command->add_option("--track", options->track,
                      "Rounds between looks at what is hot now; 0: the first choice stays");
  command
      ->add_option("--order", options->order, "Of samples: random, or file (as they were recorded)")
      ->default_str(options->order);
  command->add_option("--wire", options->wire, "Gradients travel as fp32, bf16, fp16, int8");
  command->add_option(
      "--row-wire", options->row_wire,
      "Rows travel to workers as fp32, bf16, fp16, int8; all read alike, hot or not");
  command->add_option("--staleness", options->staleness,
                      "Batches asked for ahead: steps travel while others are computed, and each "
                      "reads rows so many steps old");
  command->add_flag("--asynchronous", options->asynchronous,
                    "No worker waits for another: servers take each one's gradients as they come");
  command->add_option("--seed", options->seed, "Of the order of samples and of new rows");
  add_row_options(*command, *options);
  add_safety_options(*command, *options);
  command->add_flag("--json", options->json, "One object per epoch");
  auto compare = std::make_shared<CompareFlags>();
  add_compare_options(*command, *compare);
  command->callback(
      [options, compare, &exit_code] { exit_code = run_command(*options, *compare); });
}

}  // namespace sumcast::cli
