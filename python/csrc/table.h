// A table shared by ranks, as Python sees it: tensors in, tensors out, no lock of the interpreter
// held while anything is waited for.
#pragma once

#include <ATen/core/Tensor.h>
#include <pybind11/pybind11.h>
#include <sumcast/table.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "job.h"

namespace sumcast_torch {

/// What a Python dictionary says of a table, by the names of sumcast_table_options.
struct TableSettings {
  explicit TableSettings(const pybind11::dict& from);
  sumcast_table_options options{};
  std::string optimizer, checkpoint_directory;  ///< That `options` points to.
};

class Table {
 public:
  /// @param meeting  none: this process alone.
  Table(std::string name, const std::optional<Meeting>& meeting, uint32_t rank, uint32_t world,
        std::chrono::milliseconds timeout, const TableSettings& settings);
  ~Table();
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  /// Keys: int64[n] (their bits count), contiguous, distinct. Rows: f32[at least n][width],
  /// contiguous, into the first n of which it writes.
  void pull(const at::Tensor& keys, const at::Tensor& rows);
  void push(const at::Tensor& gradients, const at::Tensor& next, const at::Tensor& rows);
  void peek(const at::Tensor& keys, const at::Tensor& rows);
  void set_hot(const at::Tensor& keys);
  void set_rate(float rate);
  void save(bool full, const std::string& state);
  std::optional<pybind11::bytes> restored() const;
  std::map<std::string, uint64_t> counters() const;
  void abort(const std::string& reason);
  /// Leaves; later calls raise.
  void close();
  const std::string& name() const { return name_; }

 private:
  std::shared_ptr<sumcast_table> handle() const;
  template <typename Call>
  void run(Call call);

  std::string name_;
  uint32_t width_;
  int pid_;
  mutable std::mutex mutex_;  // Guards the handle.
  std::shared_ptr<sumcast_table> handle_;
};

/// Names and counters of the tables that are open.
std::vector<std::pair<std::string, std::map<std::string, uint64_t>>> table_counters();
/// At the end of the program.
void close_tables();
void define_tables(pybind11::module_& module);

}  // namespace sumcast_torch
