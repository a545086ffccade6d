// Rounds of sparse training over a ps-lite, any: what `sumcast bench sparse --peer pslite=DIR`
// builds against a user's own and runs beside our paths, on the same keys and gradients.
//
//   ps_rounds DATA WIDTH RATE      roles from DMLC_*, as always
//
//   worker  reads DATA/batches.RANK: u32 batches, {u64 count, u64 keys[count]} each, then
//           f32 noise[most keys][WIDTH]. Obeys the lines of a sparse bench's member: "prepare PATH
//           ROUNDS", "run ROUNDS START_NS". A round pushes the gradients of this batch and pulls
//           the rows of the next, both at once.
//   server  keeps f32 rows with Adagrad's state. A round's pushes are summed in the order of ranks
//           when all workers' are there, rows move once, and only then are pushes acknowledged and
//           the round's pulls answered.
//
// Gradients are noise + row / 10, so that rows which differ anywhere differ in all that follows.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ps/ps.h"

namespace {

size_t width = 1;
float rate = 0.01f;
constexpr float kEpsilon = 1e-8f;

struct Row {
  std::vector<float> weights, squares, gradient;
  uint64_t touched_in = 0;  // The round, from 1.
};

struct Request {
  ps::KVMeta meta;
  ps::SArray<ps::Key> keys;
  ps::SArray<float> vals;
};

/// ps-lite calls it from one thread.
class Server {
 public:
  explicit Server(size_t workers) : workers_(workers) {}

  void handle(const ps::KVMeta& meta, const ps::KVPairs<float>& pairs,
              ps::KVServer<float>* server) {
    (meta.push ? pushes_ : pulls_).push_back({meta, pairs.keys, pairs.vals});
    if (meta.push && pushes_.size() == workers_) end_round(server);
    answer_pulls(server);
  }

 private:
  Row& row_of(ps::Key key) {
    Row& row = rows_[key];
    if (row.weights.empty()) {
      row.weights.resize(width), row.squares.resize(width), row.gradient.resize(width);
    }
    return row;
  }

  void end_round(ps::KVServer<float>* server) {
    ++round_;
    std::sort(pushes_.begin(), pushes_.end(), [](const Request& a, const Request& b) {
      return a.meta.sender < b.meta.sender;  // Ids ascend with ranks.
    });
    std::vector<Row*> touched;
    for (const Request& push : pushes_) {
      for (size_t i = 0; i < push.keys.size(); ++i) {
        Row& row = row_of(push.keys[i]);
        const float* const from = push.vals.data() + i * width;
        if (row.touched_in != round_) {
          row.touched_in = round_;
          std::memcpy(row.gradient.data(), from, width * sizeof(float));
          touched.push_back(&row);
          continue;
        }
        for (size_t lane = 0; lane < width; ++lane) row.gradient[lane] += from[lane];
      }
    }
    for (Row* const row : touched) {
      for (size_t lane = 0; lane < width; ++lane) {
        const float g = row->gradient[lane];
        row->squares[lane] += g * g;
        row->weights[lane] -= rate * g / (std::sqrt(row->squares[lane]) + kEpsilon);
      }
    }
    for (const Request& push : pushes_) server->Response(push.meta);
    pushes_.clear();
  }

  /// A pull's command is the number of rounds that it wants to see.
  void answer_pulls(ps::KVServer<float>* server) {
    std::vector<Request> waiting;
    for (Request& pull : pulls_) {
      if (static_cast<uint64_t>(pull.meta.cmd) > round_) {
        waiting.push_back(pull);
        continue;
      }
      ps::KVPairs<float> response;
      response.keys = pull.keys;
      response.vals.resize(pull.keys.size() * width);
      for (size_t i = 0; i < pull.keys.size(); ++i) {
        std::memcpy(response.vals.data() + i * width, row_of(pull.keys[i]).weights.data(),
                    width * sizeof(float));
      }
      server->Response(pull.meta, response);
    }
    pulls_ = std::move(waiting);
  }

  size_t workers_;
  uint64_t round_ = 0;
  std::unordered_map<ps::Key, Row> rows_;
  std::vector<Request> pushes_, pulls_;
};

class Worker {
 public:
  explicit Worker(const std::string& data) : kv_(0, 0), rank_(ps::MyRank()) {
    std::ifstream file(data + "/batches." + std::to_string(rank_), std::ios::binary);
    uint32_t batches = 0;
    file.read(reinterpret_cast<char*>(&batches), sizeof batches);
    size_t most = 0;
    for (uint32_t i = 0; i < batches && file; ++i) {
      uint64_t count = 0;
      file.read(reinterpret_cast<char*>(&count), sizeof count);
      ps::SArray<ps::Key> keys(count);
      file.read(reinterpret_cast<char*>(keys.data()),
                static_cast<std::streamsize>(count * sizeof(ps::Key)));
      batches_.push_back(keys);
      most = std::max<size_t>(most, count);
    }
    noise_.resize(most * width);
    file.read(reinterpret_cast<char*>(noise_.data()),
              static_cast<std::streamsize>(noise_.size() * sizeof(float)));
    if (!file || batches_.empty()) {
      std::fprintf(stderr, "ps_rounds: no batches for rank %d in %s\n", rank_, data.c_str());
      std::exit(1);
    }
  }

  void train(uint32_t rounds) {
    if (rows_.size() == 0) kv_.Wait(pull());
    for (uint32_t i = 0; i < rounds; ++i) {
      const ps::SArray<ps::Key> keys = batches_[at_ % batches_.size()];
      ps::SArray<float> gradients(keys.size() * width);
      for (size_t lane = 0; lane < gradients.size(); ++lane) {
        gradients[lane] = noise_[lane] + 0.1f * rows_[lane];
      }
      const int pushed = kv_.ZPush(keys, gradients);
      ++at_;
      const int pulled = pull();
      kv_.Wait(pushed);
      kv_.Wait(pulled);
      moved_ += keys.size();
    }
  }

  void obey() {
    for (std::string line; std::getline(std::cin, line);) {
      std::istringstream words(line);
      std::string verb;
      uint32_t rounds = 0;
      int64_t start = 0;
      words >> verb;
      if (verb == "prepare") {
        std::string path;
        words >> path >> rounds;  // Rounds that our paths train here, too.
        train(rounds);
        std::puts("{\"ready\": true}");
      } else if (verb == "run" && words >> rounds >> start && rounds > 0) {
        run(rounds, start);
      } else {
        std::puts("{\"error\": \"ps_rounds: no such command\"}");
      }
      std::fflush(stdout);
    }
  }

 private:
  int pull() {
    const ps::SArray<ps::Key>& keys = batches_[at_ % batches_.size()];
    rows_ = ps::SArray<float>(keys.size() * width);
    return kv_.ZPull(keys, &rows_, nullptr, static_cast<int>(at_));
  }

  void run(uint32_t rounds, int64_t start) {
    using Clock = std::chrono::steady_clock;
    std::this_thread::sleep_until(Clock::time_point(std::chrono::nanoseconds(start)));
    const uint64_t before = moved_;
    const auto begun = Clock::now();
    train(rounds);
    const double seconds = std::chrono::duration<double>(Clock::now() - begun).count();
    std::printf(
        "{\"round_us\": %.3f, \"hash\": %llu, \"hot_pushed\": 0, \"cold_pushed\": %llu, "
        "\"hot_keys\": 0, \"chosen\": \"\", \"rank\": %d}\n",
        seconds * 1e6 / rounds, static_cast<unsigned long long>(hash()),
        static_cast<unsigned long long>(moved_ - before), rank_);
  }

  /// As table/row_table.h has it: a hash of the rows that came last.
  uint64_t hash() const {
    const auto mix = [](uint64_t z) {
      z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
      z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
      return z ^ (z >> 31);
    };
    uint64_t hash = rows_.size() / width;
    for (size_t lane = 0; lane < rows_.size(); ++lane) {
      uint32_t bits = 0;
      std::memcpy(&bits, &rows_[lane], sizeof bits);
      hash = mix(hash ^ bits) + 0x9E3779B97F4A7C15u;
    }
    return hash;
  }

  ps::KVWorker<float> kv_;
  int rank_;
  std::vector<ps::SArray<ps::Key>> batches_;
  std::vector<float> noise_;
  ps::SArray<float> rows_;  // Of the current batch.
  uint64_t at_ = 0;         // Rounds trained.
  uint64_t moved_ = 0;      // Gradients pushed.
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: ps_rounds DATA WIDTH RATE\n");
    return 2;
  }
  width = std::strtoull(argv[2], nullptr, 10);
  rate = std::strtof(argv[3], nullptr);
  ps::Start(0);
  if (ps::IsServer()) {
    auto* const state = new Server(static_cast<size_t>(ps::NumWorkers()));
    auto* const server = new ps::KVServer<float>(0);
    server->set_request_handle(
        [state](const ps::KVMeta& meta, const ps::KVPairs<float>& pairs,
                ps::KVServer<float>* from) { state->handle(meta, pairs, from); });
    ps::RegisterExitCallback([server, state] {
      delete server;
      delete state;
    });
  }
  if (ps::IsWorker()) {
    Worker worker(argv[1]);
    std::puts("{\"ready\": true}");
    std::fflush(stdout);
    worker.obey();
  } else {
    std::puts("{\"ready\": true}");
    std::fflush(stdout);
  }
  ps::Finalize(0, true);
  return 0;
}
