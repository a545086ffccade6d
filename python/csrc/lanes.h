// Tensors as the library takes them: contiguous memory of one of its ten types.
//
// Collectives that only move data carry any dtype, as elements of a type of the same width.
// Reductions do arithmetic:
//
//   complex             as pairs of reals; SUM, AVG and PREMUL_SUM act on them one by one
//   uint16 32 64        as signed of the same width: sums, products and bits agree modulo 2^n; for
//                       MIN and MAX the top bit is flipped, which maps one order onto the other
//   PREMUL_SUM          the product is formed here, then SUM
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <string>
#include <utility>

namespace sumcast_torch {

/// Memory, as the C API wants it.
struct Lanes {
  void* data = nullptr;
  uint64_t count = 0;
  int type = 0;  ///< enum sumcast_type
};

/// Throws, naming what is wrong and what is supported, unless this is a dense tensor of the CPU or
/// of a device that tensors can be staged from.
void check_tensor(const at::Tensor& tensor, const char* operation);

/// @param tensor  contiguous. Its memory as elements to be moved.
Lanes lanes_of(const at::Tensor& tensor);
uint64_t bytes_of(const at::Tensor& tensor);

/// A contiguous tensor with the same values; the same one if it is.
at::Tensor packed(const at::Tensor& tensor);
/// Contiguous memory for a result: `tensor` itself if it is contiguous.
at::Tensor room_for(const at::Tensor& tensor);
/// Copies a result where it belongs, unless it is there.
void unpack_into(at::Tensor tensor, const at::Tensor& result);

/// The same reduction for tensors of the host: PREMUL_SUM may bring its factor as a tensor.
c10d::ReduceOp on_host(const c10d::ReduceOp& op);

/// One reduction: how values go in and come out.
class Arithmetic {
 public:
  /// Throws if the pair is not supported, listing what is.
  Arithmetic(const at::Tensor& like, const c10d::ReduceOp& op, const char* operation);

  int reduction() const { return reduction_; }  ///< enum sumcast_reduction
  /// Contiguous values to be reduced; shares memory with `tensor` where it can.
  at::Tensor encode(const at::Tensor& tensor) const;
  /// Contiguous room for the encoded result; shares memory with `tensor` where it can.
  at::Tensor room(const at::Tensor& tensor) const;
  /// Puts an encoded result into `tensor`.
  void decode(const at::Tensor& encoded, at::Tensor tensor) const;

 private:
  at::Tensor as_real(const at::Tensor& contiguous) const;

  int reduction_ = 0;
  bool complex_ = false, flip_ = false;
  c10::ScalarType lane_ = c10::ScalarType::Float;  ///< What elements are carried as.
  at::Tensor factor_;                              ///< Of PREMUL_SUM; or undefined.
};

}  // namespace sumcast_torch
