// The sum of sparse COO tensors.
//
// Which entries others have is not known beforehand, so it takes two rounds of messages on a thread
// of ours: sizes, then indices and values. Every rank adds them up in rank order, so that all get
// the same bits. Each rank sends its entries to each other one: (n-1) times its own bytes.
#include <ATen/ATen.h>

#include <array>
#include <limits>

#include "backend.h"
#include "mail.h"

namespace sumcast_torch {
namespace {

constexpr size_t kDimensionsMax = 12;

/// What ranks must agree on, and how many entries one has.
struct Header {
  int64_t entries = 0;
  int64_t scalar_type = 0;
  int64_t sparse_dimensions = 0, dense_dimensions = 0;
  std::array<int64_t, kDimensionsMax> sizes{};

  bool agrees(const Header& other) const {
    return scalar_type == other.scalar_type && sparse_dimensions == other.sparse_dimensions &&
           dense_dimensions == other.dense_dimensions && sizes == other.sizes;
  }
};

struct Round {
  std::shared_ptr<sumcast_group> group;
  int rank, size;
  int64_t limit_ms;
  std::string name;
  std::vector<sumcast_message> sends, receives;

  /// Throws if the exchange failed.
  void run() {
    sumcast_call call{};
    call.size = sizeof call;
    call.timeout_ms = limit_ms;
    const int code = sumcast_exchange(group.get(), sends.data(), sends.size(), receives.data(),
                                      receives.size(), &call, nullptr, nullptr, nullptr);
    if (code != SUMCAST_OK)
      std::rethrow_exception(backend_error(name + ": " + sumcast_last_error()));
    sends.clear();
    receives.clear();
  }

  /// Throws because of what another rank sent.
  [[noreturn]] void refuse(int other, const std::string& why) const {
    std::rethrow_exception(backend_error(name + ": rank " + std::to_string(other) + " " + why));
  }
};

Header header_of(const at::Tensor& tensor) {
  Header header;
  header.entries = tensor._nnz();
  header.scalar_type = static_cast<int64_t>(tensor.scalar_type());
  header.sparse_dimensions = tensor.sparse_dim();
  header.dense_dimensions = tensor.dense_dim();
  for (int64_t i = 0; i < tensor.dim(); ++i) header.sizes[i] = tensor.size(i);
  return header;
}

/// How many entries a coalesced tensor of this shape can have; the largest number if it has no end.
int64_t places_of(const at::Tensor& tensor) {
  int64_t places = 1;
  for (int64_t i = 0; i < tensor.sparse_dim(); ++i) {
    if (__builtin_mul_overflow(places, tensor.size(i), &places)) {
      return std::numeric_limits<int64_t>::max();
    }
  }
  return places;
}

/// Does every entry lie inside? What reads them does not look.
/// @param indices  int64[sparse_dim(), entries], contiguous.
bool fits(const at::Tensor& indices, const at::Tensor& tensor) {
  const int64_t entries = indices.size(1);
  const int64_t* index = indices.const_data_ptr<int64_t>();
  for (int64_t row = 0; row < indices.size(0); ++row) {
    for (int64_t i = 0; i < entries; ++i, ++index) {
      if (*index < 0 || *index >= tensor.size(row)) return false;
    }
  }
  return true;
}

/// @param mine  coalesced.
at::Tensor sum_of_all(Round& round, const at::Tensor& mine, uint64_t tag) {
  const auto each_peer = [&](auto visit) {
    for (int rank = 0; rank < round.size; ++rank) {
      if (rank != round.rank) visit(static_cast<uint32_t>(rank));
    }
  };
  std::vector<Header> headers(round.size);
  headers[round.rank] = header_of(mine);
  each_peer([&](uint32_t peer) {
    round.sends.push_back(
        {sizeof(sumcast_message), &headers[round.rank], sizeof(Header), peer, 0x53, tag});
    round.receives.push_back(
        {sizeof(sumcast_message), &headers[peer], sizeof(Header), peer, 0x53, tag});
  });
  round.run();
  for (int rank = 0; rank < round.size; ++rank) {
    if (!headers[rank].agrees(headers[round.rank])) {
      round.refuse(rank, "has a sparse tensor of another shape or type");
    }
    if (headers[rank].entries < 0 || headers[rank].entries > places_of(mine)) {
      round.refuse(rank, "says that it has " + std::to_string(headers[rank].entries) +
                             " entries of a sparse tensor with " + std::to_string(places_of(mine)) +
                             " places");
    }
  }
  const at::Tensor indices = mine.indices().contiguous();
  const at::Tensor values = packed(mine.values());
  std::vector<at::Tensor> all_indices(round.size), all_values(round.size);
  all_indices[round.rank] = indices;
  all_values[round.rank] = values;
  each_peer([&](uint32_t peer) {
    const int64_t entries = headers[peer].entries;
    std::vector<int64_t> shape = values.sizes().vec();
    shape[0] = entries;
    all_indices[peer] = at::empty({indices.size(0), entries}, indices.options());
    all_values[peer] = at::empty(shape, values.options());
    round.sends.push_back(
        {sizeof(sumcast_message), indices.data_ptr(), bytes_of(indices), peer, 0x54, tag | 1});
    round.sends.push_back(
        {sizeof(sumcast_message), values.data_ptr(), bytes_of(values), peer, 0x55, tag | 2});
    round.receives.push_back({sizeof(sumcast_message), all_indices[peer].data_ptr(),
                              bytes_of(all_indices[peer]), peer, 0x54, tag | 1});
    round.receives.push_back({sizeof(sumcast_message), all_values[peer].data_ptr(),
                              bytes_of(all_values[peer]), peer, 0x55, tag | 2});
  });
  round.run();
  at::Tensor sum;
  for (int rank = 0; rank < round.size; ++rank) {
    if (!fits(all_indices[rank], mine)) {
      round.refuse(rank, "has an entry outside of its sparse tensor");
    }
    at::Tensor one = at::_sparse_coo_tensor_unsafe(all_indices[rank], all_values[rank],
                                                   mine.sizes(), mine.options());
    sum = sum.defined() ? sum.add(one) : one;
  }
  return sum.coalesce();
}

}  // namespace

c10::intrusive_ptr<c10d::Work> SumcastBackend::allreduce_sparse(
    std::vector<at::Tensor>& tensors, const c10d::AllreduceOptions& options) {
  check_usable();
  TORCH_CHECK(
      tensors.size() == 1 && tensors[0].layout() == c10::kSparse && tensors[0].device().is_cpu(),
      "sumcast: sparse all_reduce takes one sparse COO tensor on the CPU");
  TORCH_CHECK_NOT_IMPLEMENTED(options.reduceOp.op_ == c10d::ReduceOp::SUM,
                              "sumcast: all_reduce of a sparse tensor does SUM only");
  TORCH_CHECK(tensors[0].dim() <= static_cast<int64_t>(kDimensionsMax),
              "sumcast: all_reduce of a sparse tensor takes ", kDimensionsMax,
              " dimensions at most");
  if (must_stage(tensors)) {
    return stage(c10d::OpType::_ALLREDUCE_SPARSE, "sparse_all_reduce", tensors, tensors, tensors,
                 options.timeout,
                 [this, options](Twins&, Twins& out) { return allreduce_sparse(out, options); });
  }
  at::Tensor target = tensors[0];  // Not detached: what is copied into a sparse one replaces it.
  const at::Tensor mine = target.detach().coalesce();
  const Turn turn(*this);
  Parts what = parts(c10d::OpType::_ALLREDUCE_SPARSE, "sparse_all_reduce", {}, tensors);
  what.bytes = bytes_of(mine.values()) + bytes_of(mine.indices());
  what.inputs = tensors;
  const uint64_t tag = note_call(what.sequence, "sparse_all_reduce");
  Round round{group_->handle(), getRank(), getSize(), limit(options.timeout), what.name, {}, {}};
  auto work = c10::make_intrusive<SumcastWork>(group_, completion_, getRank(), std::move(what),
                                               round.limit_ms);
  work->begin_elsewhere();
  keep(work);
  completion_->run([work, round, mine, target, tag]() mutable {
    std::exception_ptr failure;
    try {
      const at::NoGradGuard guard;
      target.copy_(sum_of_all(round, mine, tag));
    } catch (const std::exception& error) {
      failure = std::current_exception();
      // The others may wait for what this rank will not send any more.
      sumcast_group_abort(round.group.get(), one_line(error).c_str());
    }
    work->end(failure);
  });
  return work;
}

}  // namespace sumcast_torch
