// Several operations with one Work, as batch_isend_irecv and the coalescing manager want it.
#include "backend.h"

namespace sumcast_torch {
namespace {

/// Done when all of its works are; fails with the first failure.
class CoalescedWork final : public c10d::Work {
 public:
  CoalescedWork(int rank, std::vector<c10::intrusive_ptr<c10d::Work>> works)
      : c10d::Work(rank, c10d::OpType::COALESCED), works_(std::move(works)) {}

  bool isCompleted() override {
    bool all = true;
    for (const auto& work : works_) all &= work->isCompleted();
    return all;
  }
  bool isSuccess() const override {
    for (const auto& work : works_) {
      if (!work->isSuccess()) return false;
    }
    return true;
  }
  std::exception_ptr exception() const override {
    for (const auto& work : works_) {
      if (auto failure = work->exception()) return failure;
    }
    return nullptr;
  }
  bool wait(std::chrono::milliseconds timeout) override {
    for (const auto& work : works_) work->wait(timeout);
    return true;
  }
  void synchronize() override { wait(kNoTimeout); }
  void abort() override {
    for (const auto& work : works_) work->abort();
  }
  std::vector<at::Tensor> result() override {
    std::vector<at::Tensor> all;
    for (const auto& work : works_) {
      const auto some = work->result();
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    c10::List<c10::intrusive_ptr<c10::ivalue::Future>> futures(
        c10::FutureType::create(c10::ListType::create(c10::TensorType::get())));
    for (const auto& work : works_) futures.push_back(work->getFuture());
    return c10::collectAll(futures);
  }

 private:
  const std::vector<c10::intrusive_ptr<c10d::Work>> works_;
};

}  // namespace

void SumcastBackend::startCoalescing() {
  check_usable();
  // Of a caller who left by an exception, as torch's manager does not say then. What had begun goes
  // on like any other work that its caller dropped.
  std::vector<c10::intrusive_ptr<c10d::Work>> left;
  const std::lock_guard lock(mutex_);
  left.swap(coalesced_);
  coalescing_ = true;
}

c10::intrusive_ptr<c10d::Work> SumcastBackend::endCoalescing() {
  const std::lock_guard lock(mutex_);
  TORCH_CHECK(coalescing_, "sumcast: coalescing has not begun");
  coalescing_ = false;
  auto work = c10::make_intrusive<CoalescedWork>(getRank(), std::move(coalesced_));
  coalesced_.clear();
  return work;
}

}  // namespace sumcast_torch
