#include "table.h"

#include "bags.h"
#include "living.h"

#include <torch/csrc/utils/pybind.h>
#include <torch/types.h>
#include <unistd.h>

#include <pybind11/functional.h>
#include <pybind11/stl.h>

namespace py = pybind11;

namespace sumcast_torch {
namespace {

Living<Table> living;

/// ValueError for what the caller can mend, torch's error of backends for all else.
[[noreturn]] void refuse(int code, const std::string& text) {
  if (code == SUMCAST_INVALID_ARGUMENT) throw py::value_error(text);
  const auto type = py::module_::import("torch.distributed").attr("DistBackendError");
  PyErr_SetString(type.ptr(), text.c_str());
  throw py::error_already_set();
}

void check_tensor(const at::Tensor& tensor, at::ScalarType type, const char* what) {
  if (tensor.scalar_type() == type && tensor.is_contiguous() && tensor.device().is_cpu()) return;
  throw py::type_error(std::string("sumcast: ") + what + " of another type, layout or device");
}

const uint64_t* keys_of(const at::Tensor& keys) {
  check_tensor(keys, at::kLong, "keys");
  if (keys.dim() != 1) throw py::value_error("sumcast: keys of more or fewer dimensions than one");
  return reinterpret_cast<const uint64_t*>(keys.const_data_ptr<int64_t>());
}

float* rows_for(int64_t count, const at::Tensor& rows, uint32_t width) {
  check_tensor(rows, at::kFloat, "rows");
  if (rows.dim() != 2 || rows.size(0) < count || rows.size(1) != static_cast<int64_t>(width)) {
    throw py::value_error("sumcast: rows of another shape than their keys");
  }
  return rows.data_ptr<float>();
}

}  // namespace

TableSettings::TableSettings(const py::dict& from) {
  options.size = sizeof options;
  sumcast_table_defaults(&options);
  const auto take = [&](const char* name, auto& value) {
    value = from[name].cast<std::remove_reference_t<decltype(value)>>();
  };
  take("optimizer", optimizer);
  take("checkpoint_directory", checkpoint_directory);
  options.optimizer = optimizer.c_str();
  options.checkpoint_directory =
      checkpoint_directory.empty() ? nullptr : checkpoint_directory.c_str();
  take("width", options.width);
  take("rate", options.rate);
  take("momentum", options.momentum);
  take("beta1", options.beta1);
  take("beta2", options.beta2);
  take("epsilon", options.epsilon);
  take("beta", options.beta);
  take("l1", options.l1);
  take("l2", options.l2);
  take("initial", options.initial);
  take("init_scale", options.init_scale);
  take("seed", options.seed);
  take("servers", options.servers);
  take("segments", options.segments);
  take("wire", options.wire);
  take("row_wire", options.row_wire);
  take("resume", options.resume);
  take("hot_max", options.hot_max);
  take("track", options.track);
  take("admit_after", options.admit_after);
  take("evict_after", options.evict_after);
  take("max_rows", options.max_rows);
}

Table::Table(std::string name, const std::optional<Meeting>& meeting, uint32_t rank, uint32_t world,
             std::chrono::milliseconds timeout, const TableSettings& settings)
    : name_(std::move(name)), width_(settings.options.width), pid_(::getpid()) {
  int code = SUMCAST_OK;
  std::string text;
  {
    const py::gil_scoped_release unlocked;
    sumcast_table* made = nullptr;
    const auto open = [&](const sumcast_options* job) {
      code = sumcast_table_open(job, &settings.options, &made);
      if (code != SUMCAST_OK) text = sumcast_last_error();
      handle_ = std::shared_ptr<sumcast_table>(made, sumcast_table_free);
    };
    if (meeting) {
      meet(*meeting, rank, world, timeout, open);
    } else {
      open(nullptr);
    }
  }
  if (code != SUMCAST_OK) refuse(code, "sumcast: opening table \"" + name_ + "\": " + text);
}

Table::~Table() {
  if (::getpid() != pid_) {
    new auto(std::move(handle_));  // The parent's to end.
    return;
  }
  close();
}

void Table::close() {
  if (::getpid() != pid_) return;  // The parent's to end.
  std::shared_ptr<sumcast_table> last;
  {
    const std::lock_guard lock(mutex_);
    last.swap(handle_);
  }
  if (!last) return;
  if (PyGILState_Check() == 0) {
    last.reset();
    return;
  }
  const py::gil_scoped_release unlocked;
  last.reset();
}

std::shared_ptr<sumcast_table> Table::handle() const {
  if (::getpid() != pid_) {
    throw std::runtime_error("sumcast: table \"" + name_ +
                             "\" belongs to the process that this one was forked from");
  }
  const std::lock_guard lock(mutex_);
  if (!handle_) throw std::runtime_error("sumcast: table \"" + name_ + "\" is closed");
  return handle_;
}

/// Makes a call of the C API, which may take its time.
template <typename Call>
void Table::run(Call call) {
  auto held = handle();
  int code = SUMCAST_OK;
  std::string text;
  {
    const py::gil_scoped_release unlocked;
    code = call(held.get());
    if (code != SUMCAST_OK) text = sumcast_last_error();
    held.reset();  // May be the last, if another thread closes the table.
  }
  if (code != SUMCAST_OK) refuse(code, "sumcast: table \"" + name_ + "\": " + text);
}

void Table::pull(const at::Tensor& keys, const at::Tensor& rows) {
  const uint64_t* const from = keys_of(keys);
  float* const to = rows_for(keys.numel(), rows, width_);
  run([&](sumcast_table* table) {
    return sumcast_table_pull(table, from, static_cast<size_t>(keys.numel()), to);
  });
}

void Table::push(const at::Tensor& gradients, const at::Tensor& next, const at::Tensor& rows) {
  check_tensor(gradients, at::kFloat, "gradients");
  if (gradients.dim() != 2 || gradients.size(1) != static_cast<int64_t>(width_)) {
    throw py::value_error("sumcast: gradients of another shape than rows");
  }
  const uint64_t* const from = keys_of(next);
  float* const to = rows_for(next.numel(), rows, width_);
  run([&](sumcast_table* table) {
    return sumcast_table_push(table, gradients.const_data_ptr<float>(),
                              static_cast<size_t>(gradients.size(0)), from,
                              static_cast<size_t>(next.numel()), to);
  });
}

void Table::peek(const at::Tensor& keys, const at::Tensor& rows) {
  const uint64_t* const from = keys_of(keys);
  float* const to = rows_for(keys.numel(), rows, width_);
  run([&](sumcast_table* table) {
    return sumcast_table_peek(table, from, static_cast<size_t>(keys.numel()), to);
  });
}

void Table::set_rate(float rate) {
  run([&](sumcast_table* table) { return sumcast_table_set_rate(table, rate); });
}

void Table::set_hot(const at::Tensor& keys) {
  const uint64_t* const from = keys_of(keys);
  run([&](sumcast_table* table) {
    return sumcast_table_set_hot(table, from, static_cast<size_t>(keys.numel()));
  });
}

void Table::save(bool full, const std::string& state) {
  run([&](sumcast_table* table) {
    return sumcast_table_save(table, full ? 1 : 0, state.data(), state.size());
  });
}

std::optional<py::bytes> Table::restored() const {
  auto held = handle();
  std::optional<std::string> saved;
  {
    const py::gil_scoped_release unlocked;  // `held` may be the last, if another thread closes.
    const void* state = nullptr;
    size_t bytes = 0;
    sumcast_table_restored(held.get(), &state, &bytes);
    if (state != nullptr) saved.emplace(static_cast<const char*>(state), bytes);
    held.reset();
  }
  if (!saved) return std::nullopt;
  return py::bytes(*saved);
}

std::map<std::string, uint64_t> Table::counters() const {
  sumcast_table_counters now{};
  now.size = sizeof now;
  auto held = handle();
  {
    const py::gil_scoped_release unlocked;  // `held` may be the last, if another thread closes.
    sumcast_table_count(held.get(), &now);
    held.reset();
  }
  return {{"rounds", now.rounds},           {"hot_pushed", now.hot_pushed},
          {"cold_pushed", now.cold_pushed}, {"hot_moved", now.hot_moved},
          {"cold_pulled", now.cold_pulled}, {"hot_keys", now.hot_keys},
          {"hot_changes", now.hot_changes}, {"rows_held", now.rows_held},
          {"failovers", now.failovers},     {"checkpoints", now.checkpoints},
          {"returns", now.returns}};
}

void Table::abort(const std::string& reason) {
  run([&](sumcast_table* table) { return sumcast_table_abort(table, reason.c_str()); });
}

std::vector<std::pair<std::string, std::map<std::string, uint64_t>>> table_counters() {
  std::vector<std::pair<std::string, std::map<std::string, uint64_t>>> all;
  for (const auto& table : living.all()) {
    try {
      all.emplace_back(table->name(), table->counters());
    } catch (const std::runtime_error&) {  // Closed, or another process's.
    }
  }
  return all;
}

void close_tables() {
  for (const auto& table : living.all()) table->close();
}

namespace {

std::shared_ptr<Table> open_table(const std::string& name, const std::optional<Meeting>& meeting,
                                  uint32_t rank, uint32_t world, int64_t timeout_ms,
                                  const py::dict& settings) {
  auto table = std::make_shared<Table>(
      name, meeting, rank, world, std::chrono::milliseconds(timeout_ms), TableSettings(settings));
  living.add(table);
  return table;
}

std::shared_ptr<Table> join_table(const std::string& name, const std::string& job,
                                  const std::string& aggregator, const std::string& coordinator,
                                  const std::string& key_file, const py::bytes& key, bool insecure,
                                  std::function<void(const std::string&)> on_listening,
                                  uint32_t rank, const std::vector<uint64_t>& ranks,
                                  int64_t timeout_ms, const py::dict& settings) {
  Meeting meeting{job, aggregator, coordinator, key_file, key, insecure, std::move(on_listening)};
  return open_table(name, meeting, rank, static_cast<uint32_t>(ranks.size()), timeout_ms, settings);
}

at::Tensor tensor_of(const void* data, std::vector<int64_t> shape, at::ScalarType type) {
  auto tensor = torch::empty(shape, at::TensorOptions().dtype(type));
  if (tensor.numel() != 0) std::memcpy(tensor.data_ptr(), data, tensor.nbytes());
  return tensor;
}

py::dict read_table(const std::string& directory) {
  int code = SUMCAST_OK;
  std::string text;
  sumcast_saved_table* read = nullptr;
  {
    const py::gil_scoped_release unlocked;
    code = sumcast_saved_table_read(directory.c_str(), &read);
    if (code != SUMCAST_OK) text = sumcast_last_error();
  }
  if (code != SUMCAST_OK) refuse(code, "sumcast: " + text);
  const std::unique_ptr<sumcast_saved_table, void (*)(sumcast_saved_table*)> saved(
      read, sumcast_saved_table_free);
  sumcast_saved_view view{};
  view.size = sizeof view;
  sumcast_saved_table_view(saved.get(), &view);
  const auto rows = static_cast<int64_t>(view.rows);
  const auto width = static_cast<int64_t>(view.width);
  const auto records =
      tensor_of(view.records, {rows, width + static_cast<int64_t>(view.state_lanes)}, at::kFloat);
  py::dict all;
  all["keys"] = tensor_of(view.keys, {rows}, at::kLong);
  all["rows"] = records.narrow(1, 0, width).contiguous();
  all["optimizer_state"] = records.narrow(1, width, view.state_lanes).contiguous();
  all["optimizer"] = view.optimizer;
  all["number"] = view.number;
  all["state"] = py::bytes(static_cast<const char*>(view.state), view.state_bytes);
  return all;
}

}  // namespace

void define_tables(py::module_& module) {
  py::class_<Table, std::shared_ptr<Table>>(module, "Table")
      .def("pull", &Table::pull)
      .def("push", &Table::push)
      .def("peek", &Table::peek)
      .def("set_hot", &Table::set_hot)
      .def("set_rate", &Table::set_rate)
      .def("save", &Table::save)
      .def("restored", &Table::restored)
      .def("counters", &Table::counters)
      .def("abort", &Table::abort)
      .def("close", &Table::close);
  module.def("open_table",
             [](const std::string& name, int64_t timeout_ms, const py::dict& settings) {
               return open_table(name, std::nullopt, 0, 1, timeout_ms, settings);
             });
  module.def("join_table", &join_table, py::arg("name"), py::arg("job"), py::arg("aggregator"),
             py::arg("coordinator"), py::arg("key_file"), py::arg("key"), py::arg("insecure"),
             py::arg("on_listening"), py::arg("rank"), py::arg("ranks"), py::arg("timeout_ms"),
             py::arg("settings"));
  module.def("bag_gradients", &bag_gradients);
  module.def("read_table", &read_table, py::arg("directory"));
}

}  // namespace sumcast_torch
