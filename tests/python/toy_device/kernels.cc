// The few kernels that the device has of its own; all others run on the CPU, on copies.
#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_local_scalar_dense_native.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <torch/extension.h>
#include <torch/library.h>

#include "runtime.h"

namespace toy {
namespace {

using at::Tensor;
using c10::IntArrayRef;

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

Tensor empty(IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
             std::optional<at::Device> device, std::optional<bool>,
             std::optional<at::MemoryFormat> format) {
  const c10::DeviceGuard guard(c10::device_or_default(device));
  return at::detail::empty_generic(size, at::GetAllocator(at::kPrivateUse1), kKeys,
                                   c10::dtype_or_default(dtype), format);
}

Tensor empty_strided(IntArrayRef size, IntArrayRef stride, std::optional<at::ScalarType> dtype,
                     std::optional<at::Layout>, std::optional<at::Device> device,
                     std::optional<bool>) {
  const c10::DeviceGuard guard(c10::device_or_default(device));
  return at::detail::empty_strided_generic(size, stride, at::GetAllocator(at::kPrivateUse1), kKeys,
                                           c10::dtype_or_default(dtype));
}

/// A tensor's memory, to be used when its stream comes to it.
struct Place {
  char* data;
  std::vector<int64_t> sizes, strides;
  at::ScalarType type;
  size_t reach;  // Bytes from `data` that it covers.
  bool ciphered, conjugated, negated;

  explicit Place(const Tensor& tensor)
      : data(static_cast<char*>(tensor.mutable_data_ptr())),
        sizes(tensor.sizes().vec()),
        strides(tensor.strides().vec()),
        type(tensor.scalar_type()),
        reach(at::detail::computeStorageNbytes(sizes, strides, tensor.element_size())),
        ciphered(!tensor.is_cpu()),
        conjugated(tensor.is_conj()),
        negated(tensor.is_neg()) {}

  bool is_alive() const { return reach == 0 || !ciphered || toy::is_alive(data, reach); }
  /// As plain bits: no arithmetic touches ciphered numbers.
  Tensor bits() const {
    constexpr at::ScalarType kByWidth[] = {at::kByte, at::kShort, at::kInt, at::kLong,
                                           at::kComplexDouble};
    int width = 0;
    while ((size_t{1} << width) < c10::elementSize(type)) ++width;
    return at::from_blob(data, sizes, strides, at::TensorOptions(at::kCPU).dtype(kByWidth[width]));
  }
  Tensor read() const {
    Tensor copy = bits().contiguous().clone();
    if (ciphered) cipher(copy);
    Tensor values = copy.scalar_type() == type ? copy : copy.view(type);
    if (conjugated) values = values.conj().resolve_conj();
    if (negated) values = values.neg();
    return values;
  }
  void write(Tensor values) const {
    if (conjugated) values = values.conj().resolve_conj();
    if (negated) values = values.neg();
    Tensor target = bits();
    values = values.expand(sizes).to(type).contiguous().clone();
    if (values.scalar_type() != target.scalar_type()) values = values.view(target.scalar_type());
    if (ciphered) cipher(values);
    target.copy_(values);
  }
  static void cipher(Tensor& contiguous) {
    auto* byte = static_cast<uint8_t*>(contiguous.mutable_data_ptr());
    const auto count = static_cast<size_t>(contiguous.numel()) * contiguous.element_size();
    for (size_t i = 0; i < count; ++i) byte[i] ^= kKey;
  }
};

Tensor copy_from(const Tensor& from, const Tensor& to, bool non_blocking) {
  check_alive();
  if (from.numel() == 0) return to;
  const auto direction = to.is_cpu()     ? Direction::kIn
                         : from.is_cpu() ? Direction::kOut
                                         : Direction::kWithin;
  const auto stream = current_stream(to.is_cpu() ? from.device().index() : to.device().index());
  const Tensor& host = to.is_cpu() ? to : from;
  const bool later =
      direction == Direction::kWithin || (non_blocking && is_pinned(host.const_data_ptr()));
  queue(stream, [source = Place(from), target = Place(to), direction, later, id = stream.id(),
                 pinned = is_pinned(host.const_data_ptr()), memory = host.const_data_ptr(),
                 reach = Place(host).reach] {
    if (later) pass(direction);
    const bool alive =
        source.is_alive() && target.is_alive() && (!pinned || toy::is_alive(memory, reach));
    if (alive) target.write(source.read());
    note(direction, id, source.reach, alive);
  });
  if (!later) synchronize(stream);
  return to;
}

Tensor copy_from_and_resize(const Tensor& from, const Tensor& to) {
  if (to.sizes() != from.sizes()) to.resize_(from.sizes());
  return copy_from(from, to, false);
}

Tensor& fill(Tensor& self, const at::Scalar& value) {
  check_alive();
  if (self.numel() == 0) return self;
  queue(current_stream(self.device().index()), [target = Place(self), value] {
    if (target.is_alive()) {
      target.write(at::full(target.sizes, value, at::TensorOptions(at::kCPU).dtype(target.type)));
    }
  });
  return self;
}

Tensor& zero(Tensor& self) { return fill(self, 0); }

const Tensor& resize(const Tensor& self, IntArrayRef size, std::optional<at::MemoryFormat>) {
  auto* impl = self.unsafeGetTensorImpl();
  const auto bytes = static_cast<size_t>(c10::multiply_integers(size)) * self.element_size();
  if (bytes > self.storage().nbytes()) {
    const Tensor larger = at::empty(size, self.options());
    impl->set_storage_keep_dtype(larger.storage());
    impl->set_storage_offset(0);
  }
  impl->set_sizes_contiguous(size);
  return self;
}

at::Scalar local_scalar(const Tensor& self) { return self.cpu().item(); }

Tensor& set_storage(Tensor& self, at::Storage source, int64_t offset, IntArrayRef size,
                    IntArrayRef stride) {
  return at::native::set_storage_cpu_(self, std::move(source), offset, size, stride);
}

void on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  at::native::cpu_fallback(op, stack);
}

Tensor as_strided(const Tensor& self, IntArrayRef size, IntArrayRef stride,
                  std::optional<int64_t> offset) {
  return at::native::as_strided_tensorimpl(self, size, stride, offset);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("as_strided", as_strided);
  m.impl("view", at::native::view);
  m.impl("view.dtype", at::native::view_dtype);
  m.impl("view_as_real", at::native::view_as_real);
  m.impl("view_as_complex", at::native::view_as_complex);
  m.impl("_reshape_alias", at::native::_reshape_alias);
  m.impl("resize_", resize);
  m.impl("set_.source_Tensor", at::native::set_tensor_);
  m.impl("set_.source_Storage", static_cast<Tensor& (*)(Tensor&, at::Storage)>(at::native::set_));
  m.impl("set_.source_Storage_storage_offset", set_storage);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("_local_scalar_dense", local_scalar);
  m.impl("fill_.Scalar", fill);
  m.impl("zero_", zero);
}

// Copies look at these bits themselves.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, Negative, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&on_cpu>());
}

const char* name_of(Direction direction) {
  return direction == Direction::kIn ? "in" : direction == Direction::kOut ? "out" : "within";
}

}  // namespace
}  // namespace toy

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  module.def(
      "hold", [](int device) { return toy::hold_stream(toy::current_stream(device)); },
      pybind11::arg("device") = -1);
  module.def("let_go", &toy::let_go);
  module.def("gate", [] { return reinterpret_cast<uintptr_t>(&toy::wait_for_word); });
  module.def("hold_copies_in", [](int64_t after) { toy::hold_copies(toy::Direction::kIn, after); });
  module.def("hold_copies_out",
             [](int64_t after) { toy::hold_copies(toy::Direction::kOut, after); });
  module.def("fail", &toy::fail);
  module.def("faults", &toy::faults);
  module.def("forget_copies", &toy::forget_copies);
  module.def(
      "synchronize", [](int device) { toy::synchronize(toy::current_stream(device)); },
      pybind11::arg("device") = -1, pybind11::call_guard<pybind11::gil_scoped_release>());
  // What a program would read that takes device memory for host memory.
  module.def("raw_byte", [](const at::Tensor& tensor) {
    return *static_cast<const uint8_t*>(tensor.const_data_ptr());
  });
  module.def("copies", [] {
    std::vector<std::tuple<std::string, int64_t, uint64_t>> all;
    for (const auto& copy : toy::copies()) {
      all.emplace_back(toy::name_of(copy.direction), copy.stream, copy.bytes);
    }
    return all;
  });
}
