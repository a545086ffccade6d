#include "lanes.h"

#include <ATen/ATen.h>
#include <sumcast/sumcast.h>

#include <limits>

#include "staging.h"

namespace sumcast_torch {
namespace {

using c10::ScalarType;
using c10d::ReduceOp;

/// The library's type for a dtype that it knows, or -1.
int native_type(ScalarType type) {
  switch (type) {
    case ScalarType::Char:
      return SUMCAST_I8;
    case ScalarType::Byte:
      return SUMCAST_U8;
    case ScalarType::Short:
      return SUMCAST_I16;
    case ScalarType::Int:
      return SUMCAST_I32;
    case ScalarType::Long:
      return SUMCAST_I64;
    case ScalarType::Half:
      return SUMCAST_F16;
    case ScalarType::BFloat16:
      return SUMCAST_BF16;
    case ScalarType::Float:
      return SUMCAST_F32;
    case ScalarType::Double:
      return SUMCAST_F64;
    case ScalarType::Bool:
      return SUMCAST_BOOL;
    default:
      return -1;
  }
}

/// What carries an unsigned type.
ScalarType signed_twin(ScalarType type) {
  switch (type) {
    case ScalarType::UInt16:
      return ScalarType::Short;
    case ScalarType::UInt32:
      return ScalarType::Int;
    case ScalarType::UInt64:
      return ScalarType::Long;
    default:
      return type;
  }
}

at::Scalar top_bit(ScalarType type) {
  if (type == ScalarType::Short) return std::numeric_limits<int16_t>::min();
  if (type == ScalarType::Int) return std::numeric_limits<int32_t>::min();
  return std::numeric_limits<int64_t>::min();
}

const char* name_of(ReduceOp::RedOpType op) {
  constexpr const char* kNames[] = {"SUM",  "AVG", "PRODUCT", "MIN",       "MAX",
                                    "BAND", "BOR", "BXOR",    "PREMUL_SUM"};
  return op < 9 ? kNames[op] : "that reduction";
}

int reduction_of(ReduceOp::RedOpType op) {
  switch (op) {
    case ReduceOp::AVG:
      return SUMCAST_AVG;
    case ReduceOp::PRODUCT:
      return SUMCAST_PRODUCT;
    case ReduceOp::MIN:
      return SUMCAST_MIN;
    case ReduceOp::MAX:
      return SUMCAST_MAX;
    case ReduceOp::BAND:
      return SUMCAST_AND;
    case ReduceOp::BOR:
      return SUMCAST_OR;
    case ReduceOp::BXOR:
      return SUMCAST_XOR;
    default:
      return SUMCAST_SUM;
  }
}

bool is_supported(ScalarType type, ReduceOp::RedOpType op) {
  const bool real = type == ScalarType::Half || type == ScalarType::BFloat16 ||
                    type == ScalarType::Float || type == ScalarType::Double;
  const bool sums = op == ReduceOp::SUM || op == ReduceOp::AVG || op == ReduceOp::PREMUL_SUM;
  if (op >= ReduceOp::UNUSED) return false;
  if (c10::isComplexType(type)) return sums;
  if (real) return op != ReduceOp::BAND && op != ReduceOp::BOR && op != ReduceOp::BXOR;
  if (op == ReduceOp::PREMUL_SUM) return false;
  if (native_type(type) >= 0) return true;
  return signed_twin(type) != type && op != ReduceOp::AVG;
}

}  // namespace

void check_tensor(const at::Tensor& tensor, const char* operation) {
  TORCH_CHECK(tensor.defined(), "sumcast: ", operation, " was given an undefined tensor");
  TORCH_CHECK(tensor.is_cpu() || is_stageable(tensor.device()), "sumcast: ", operation,
              " takes tensors of the CPU and of accelerators with streams, and this one is on ",
              tensor.device());
  TORCH_CHECK(tensor.layout() == c10::kStrided, "sumcast: ", operation,
              " takes dense tensors, and this one is ", tensor.layout(),
              "; all_reduce takes sparse COO tensors with SUM");
}

uint64_t bytes_of(const at::Tensor& tensor) {
  return static_cast<uint64_t>(tensor.numel()) * tensor.element_size();
}

Lanes lanes_of(const at::Tensor& tensor) {
  const int native = native_type(tensor.scalar_type());
  // A real of half the width: two lanes an element; all else of one width are equal here.
  int type = SUMCAST_U8;
  uint64_t width = 1;
  if (native >= 0) {
    type = native;
    width = tensor.element_size();
  } else if (tensor.element_size() % 8 == 0) {
    type = SUMCAST_I64;
    width = 8;
  } else if (tensor.element_size() % 4 == 0) {
    type = SUMCAST_I32;
    width = 4;
  } else if (tensor.element_size() % 2 == 0) {
    type = SUMCAST_I16;
    width = 2;
  }
  return {tensor.data_ptr(), bytes_of(tensor) / width, type};
}

at::Tensor packed(const at::Tensor& tensor) {
  return tensor.resolve_conj().resolve_neg().contiguous();
}

at::Tensor room_for(const at::Tensor& tensor) {
  if (tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg()) return tensor;
  return at::empty(tensor.sizes(), tensor.options());
}

void unpack_into(at::Tensor tensor, const at::Tensor& result) {
  const bool in_place = tensor.is_contiguous() && tensor.data_ptr() == result.data_ptr() &&
                        !tensor.is_conj() && !tensor.is_neg();
  if (in_place || tensor.numel() == 0) return;
  const at::NoGradGuard guard;
  tensor.copy_(result.view(tensor.sizes()));
}

ReduceOp on_host(const ReduceOp& op) {
  if (op.op_ != ReduceOp::PREMUL_SUM) return op;
  const auto* extra = dynamic_cast<const c10d::PreMulSumSupplement*>(op.supplement_.get());
  if (extra == nullptr || !extra->tensor_factor.defined()) return op;
  ReduceOp here = op;
  here.supplement_ = c10::make_intrusive<c10d::PreMulSumSupplement>(extra->tensor_factor.cpu());
  return here;
}

Arithmetic::Arithmetic(const at::Tensor& like, const ReduceOp& op, const char* operation) {
  check_tensor(like, operation);
  const ScalarType type = like.scalar_type();
  const ReduceOp::RedOpType kind = op.op_;
  TORCH_CHECK_NOT_IMPLEMENTED(
      is_supported(type, kind), "sumcast: ", operation, " does not do ", name_of(kind), " of ",
      type,
      "; it does SUM AVG PRODUCT MIN MAX PREMUL_SUM of float16 bfloat16 float32 float64, SUM AVG "
      "PRODUCT MIN MAX BAND BOR BXOR of bool uint8 int8 int16 int32 int64, the same without AVG of "
      "uint16 uint32 uint64, and SUM AVG PREMUL_SUM of complex");
  reduction_ = reduction_of(kind);
  complex_ = c10::isComplexType(type);
  lane_ = complex_ ? c10::toRealValueType(type) : signed_twin(type);
  flip_ = lane_ != type && !complex_ && (kind == ReduceOp::MIN || kind == ReduceOp::MAX);
  if (kind == ReduceOp::PREMUL_SUM && like.is_cpu()) {
    const auto* extra = dynamic_cast<const c10d::PreMulSumSupplement*>(op.supplement_.get());
    TORCH_CHECK(extra != nullptr, "sumcast: ", operation, " with PREMUL_SUM lacks its factor");
    factor_ = extra->tensor_factor.defined()
                  ? extra->tensor_factor.to(like.device()).reshape({})
                  : at::scalar_tensor(extra->double_factor, like.options().dtype(at::kDouble));
  }
}

at::Tensor Arithmetic::as_real(const at::Tensor& contiguous) const {
  if (complex_) return at::view_as_real(contiguous);
  return lane_ == contiguous.scalar_type() ? contiguous : contiguous.view(lane_);
}

at::Tensor Arithmetic::encode(const at::Tensor& tensor) const {
  const at::NoGradGuard guard;
  at::Tensor values = packed(tensor.detach());
  if (factor_.defined()) values = at::mul(values, factor_).to(values.scalar_type()).contiguous();
  values = as_real(values);
  return flip_ ? at::bitwise_xor(values, top_bit(lane_)) : values;
}

at::Tensor Arithmetic::room(const at::Tensor& tensor) const {
  const at::Tensor place =
      flip_ ? at::empty(tensor.sizes(), tensor.options()) : room_for(tensor.detach());
  return as_real(place);
}

void Arithmetic::decode(const at::Tensor& encoded, at::Tensor tensor) const {
  const at::NoGradGuard guard;
  at::Tensor values = flip_ ? at::bitwise_xor(encoded, top_bit(lane_)) : encoded;
  if (complex_) {
    values = at::view_as_complex(values);
  } else if (lane_ != tensor.scalar_type()) {
    values = values.view(tensor.scalar_type());
  }
  unpack_into(tensor.detach(), values);
}

}  // namespace sumcast_torch
