// Life of a process group, and how its operations are begun.
#include "backend.h"

#include <Python.h>

#include <algorithm>
#include <sstream>
#include <thread>
#include <utility>

namespace sumcast_torch {
namespace {

/// How long a group that is given up lets the last operations end by themselves.
constexpr std::chrono::milliseconds kFarewell{2000};

}  // namespace

SumcastBackend::SumcastBackend(std::shared_ptr<Group> group)
    : c10d::Backend(group->rank(), group->size()),
      group_(std::move(group)),
      where_(group_->job()->where()) {
  const auto abort_group = [group = group_](const std::string& why) {
    if (const auto handle = group->handle()) sumcast_group_abort(handle.get(), why.c_str());
  };
  line_ = std::make_shared<Line>(abort_group, completion_);
  mail_line_ = std::make_shared<Line>(abort_group, completion_);
  init();
}

SumcastBackend::Turn::Turn(SumcastBackend& backend) : backend_(backend) { backend_.mutex_.lock(); }

SumcastBackend::Turn::~Turn() {
  const auto ended = std::exchange(backend_.ended_, {});
  backend_.mutex_.unlock();
  for (const auto& work : ended) work->settle(-1);
}

SumcastBackend::~SumcastBackend() {
  if (group_->is_forked()) {
    // Nothing of it lives in a forked child: threads and locks are the parent's.
    new auto(std::move(completion_));
    new auto(std::move(line_));
    new auto(std::move(mail_line_));
    new auto(std::move(pending_));
    new auto(std::move(coalesced_));
    return;
  }
  // Python may be what drops us, and callbacks of futures that we wait for need its lock.
  PyThreadState* python = Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr;
  shutdown();
  group_.reset();
  if (python != nullptr) PyEval_RestoreThread(python);
}

/// Ends what is under way, if anything is. With `patience` it may still end well: a program that
/// does not wait for its last message has sent it all the same.
void SumcastBackend::end_all(const char* why, std::chrono::milliseconds patience) {
  const auto until = std::chrono::steady_clock::now() + patience;
  end_lines(why, patience);
  std::deque<c10::intrusive_ptr<SumcastWork>> open;
  std::vector<c10::intrusive_ptr<c10d::Work>> coalesced;  // Dropped behind the lock.
  {
    const std::lock_guard lock(mutex_);
    open.swap(pending_);
    coalesced.swap(coalesced_);
  }
  bool any = false;
  for (const auto& work : open) {
    while (!work->is_ended() && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    any |= !work->is_ended();
  }
  const auto handle = group_->handle();
  if (any && handle) sumcast_group_abort(handle.get(), why);
  for (const auto& work : open) work->settle(-1);
}

c10::intrusive_ptr<c10d::Backend::Options> SumcastBackend::getBackendOptions() {
  auto options =
      c10::make_intrusive<Options>("sumcast", std::chrono::milliseconds(group_->timeout_ms.load()));
  options->group_name = group_->key();
  return options;
}

void SumcastBackend::setTimeout(std::chrono::milliseconds timeout) {
  TORCH_CHECK(timeout.count() > 0, "sumcast: a timeout is a positive time, not ", timeout.count(),
              " ms");
  group_->timeout_ms = timeout.count();
}

uint64_t SumcastBackend::getSequenceNumberForGroup() {
  const std::lock_guard lock(mutex_);
  return sequence_ + line_->waiting();
}

c10d::ErrorType SumcastBackend::getError() {
  const auto handle = group_->handle();
  if (!handle) return c10d::ErrorType::SUCCESS;
  const int code = sumcast_group_check(handle.get());
  if (code == SUMCAST_OK) return c10d::ErrorType::SUCCESS;
  return code == SUMCAST_TIMEOUT ? c10d::ErrorType::TIMEOUT : c10d::ErrorType::COMM_ERROR;
}

void SumcastBackend::abort() {
  const auto handle = group_->handle();
  if (!handle) return;
  sumcast_group_abort(handle.get(), "the process group was aborted by this rank");
  end_all("the process group was aborted by this rank", {});
  // A fence for calls that have just ended, too: their copies back may still be under way.
  for (const auto& line : {line_, mail_line_}) line->wait_until_left(Line::kFence);
}

void SumcastBackend::shutdown() {
  if (!group_->handle()) return;
  end_all("the process group was shut down", kFarewell);
  line_->stop();
  mail_line_->stop();
  completion_->stop();
  const std::lock_guard lock(mutex_);
  group_->close();
}

c10::intrusive_ptr<c10d::Backend> SumcastBackend::split(
    const c10::intrusive_ptr<c10d::Store>&, const std::vector<int>& ranks,
    const c10::intrusive_ptr<Options>& options) {
  check_usable();
  const auto here = std::find(ranks.begin(), ranks.end(), getRank());
  if (here == ranks.end()) return nullptr;
  std::vector<uint64_t> global;
  for (const int rank : ranks) {
    TORCH_CHECK(rank >= 0 && rank < getSize(), "sumcast: split names rank ", rank,
                " of a group of ", getSize());
    global.push_back(static_cast<uint64_t>(rank));
  }
  const auto places = group_->places(global);
  const auto timeout = options ? options->timeout : std::chrono::milliseconds(group_->timeout_ms);
  const std::string key =
      options && !options->group_name.empty() ? options->group_name : group_->key() + "/split";
  auto job = group_->job();
  TORCH_CHECK(job, "sumcast: group \"", group_->key(), "\" was shut down during a split");
  return c10::make_intrusive<SumcastBackend>(Group::open(std::move(job), places, key, timeout));
}

void SumcastBackend::check_usable() const {
  TORCH_CHECK(!group_->is_forked(),
              "sumcast: this process was forked from the one that joined the job; a forked process "
              "cannot take part (data loaders may go on loading)");
  TORCH_CHECK(group_->handle(), "sumcast: group \"", group_->key(),
              "\" was shut down, by destroy_process_group() or at the end of the program");
}

void SumcastBackend::check_root(int64_t root, const char* operation) const {
  TORCH_CHECK(root >= 0 && root < getSize(), "sumcast: ", operation, " names root ", root,
              " of a group of ", getSize());
}

int64_t SumcastBackend::limit(std::chrono::milliseconds timeout) const {
  return timeout.count() > 0 ? timeout.count() : group_->timeout_ms.load();
}

/// Names an operation. Called with the lock held: numbers are given in call order.
Parts SumcastBackend::parts(c10d::OpType type, const char* operation,
                            std::vector<at::Tensor> inputs, std::vector<at::Tensor> outputs) {
  Parts made;
  made.type = type;
  made.operation = operation;
  made.is_continued = Line::piece() > 0;
  made.sequence = made.is_continued ? sequence_ : ++sequence_;
  std::ostringstream name;
  name << operation << " #" << made.sequence;
  for (const at::Tensor& tensor : inputs) made.bytes += bytes_of(tensor);
  if (dist_debug_level_ == c10d::DebugLevel::Detail) {
    for (const at::Tensor& tensor : inputs) name << " " << tensor.dtype() << tensor.sizes();
  }
  made.name = name.str() + place_text();
  made.inputs = std::move(inputs);
  made.outputs = std::move(outputs);
  return made;
}

uint64_t SumcastBackend::note_call(uint64_t sequence, const std::string& call) const {
  uint64_t tag = 0;
  const int code = sumcast_group_note_call(group_->handle().get(), static_cast<uint32_t>(sequence),
                                           call.c_str(), &tag);
  TORCH_CHECK(code == SUMCAST_OK, "sumcast: ", call, ": ", sumcast_last_error());
  return tag;
}

/// Behind an operation's name.
std::string SumcastBackend::place_text() const {
  return " of group \"" + group_->key() + "\" (rank " + std::to_string(getRank()) + " of " +
         std::to_string(getSize()) + ", job at " + where_ + ")";
}

/// Begins all calls of one operation. Called with the lock held.
c10::intrusive_ptr<SumcastWork> SumcastBackend::start(Parts parts, const std::vector<Call>& calls,
                                                      std::chrono::milliseconds timeout) {
  const std::string name = parts.name;
  if (!parts.is_message && !parts.is_continued) note_call(parts.sequence, parts.operation);
  sumcast_call call{};
  call.size = sizeof call;
  call.timeout_ms = limit(timeout);
  auto work = c10::make_intrusive<SumcastWork>(group_, completion_, getRank(), std::move(parts),
                                               call.timeout_ms);
  const auto handle = group_->handle();  // NULL, if it was shut down since, is refused below.
  std::vector<NativeWork> natives;
  for (const Call& begin : calls) {
    sumcast_work* native = nullptr;
    const int code = begin(handle.get(), &call, &native);
    if (code != SUMCAST_OK) {
      // What has begun must not outlive the tensors; the group is over on all ranks.
      const std::string text = sumcast_last_error();
      if (!natives.empty()) sumcast_group_abort(handle.get(), text.c_str());
      for (const NativeWork& begun : natives) sumcast_work_wait(begun.get(), -1);
      std::rethrow_exception(backend_error(name + ": " + text));
    }
    natives.emplace_back(native, sumcast_work_free);
  }
  work->begin(std::move(natives));
  keep(work);
  return work;
}

/// A caller may drop a work that is under way; its tensors must stay. Those that have ended go,
/// wherever they are: a receive may stay open for long. Called with the lock held, so it completes
/// none: callbacks would run.
void SumcastBackend::keep(const c10::intrusive_ptr<SumcastWork>& work) {
  std::erase_if(pending_, [&](c10::intrusive_ptr<SumcastWork>& one) {
    const bool over = one->is_over() || one->is_forgotten();
    if (over) ended_.push_back(std::move(one));
    return over;
  });
  pending_.push_back(work);
  if (coalescing_ && !line_->is_here() && !mail_line_->is_here()) coalesced_.push_back(work);
}

}  // namespace sumcast_torch
