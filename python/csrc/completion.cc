#include "completion.h"

#include "work.h"

namespace sumcast_torch {

void Completion::await(c10::intrusive_ptr<SumcastWork> work) {
  const std::lock_guard lock(mutex_);
  // The threads hold this object: the last other owner may go on one of them.
  if (work->is_message()) {
    messages_.push_back(std::move(work));
    news_ = true;
    if (!message_thread_.joinable()) {
      message_thread_ = std::thread([self = shared_from_this()] { self->run_messages(); });
    }
    poked_.notify_all();
  } else {
    collectives_.push_back(std::move(work));
    if (!collective_thread_.joinable()) {
      collective_thread_ = std::thread([self = shared_from_this()] { self->run_collectives(); });
    }
    changed_.notify_all();
  }
}

void Completion::run(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  if (!task_thread_.joinable()) {
    task_thread_ = std::thread([self = shared_from_this()] { self->run_tasks(); });
  }
  tasked_.notify_all();
}

void Completion::run_tasks() {
  std::unique_lock lock(mutex_);
  for (;;) {
    tasked_.wait(lock, [&] { return stopping_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    auto task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
  }
}

void Completion::poke() {
  const std::lock_guard lock(mutex_);
  news_ = true;
  poked_.notify_all();
}

void Completion::run_collectives() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || !collectives_.empty(); });
    if (collectives_.empty()) return;
    auto work = std::move(collectives_.front());
    collectives_.pop_front();
    lock.unlock();
    work->settle(-1);
    work.reset();
    lock.lock();
  }
}

void Completion::run_messages() {
  std::unique_lock lock(mutex_);
  for (;;) {
    poked_.wait(lock, [&] { return news_ || (stopping_ && messages_.empty()); });
    if (stopping_ && messages_.empty()) return;
    news_ = false;
    std::list<c10::intrusive_ptr<SumcastWork>> all = std::move(messages_);
    messages_.clear();
    lock.unlock();
    std::list<c10::intrusive_ptr<SumcastWork>> open;
    for (auto& work : all) {
      if (work->is_ended()) {
        work->settle(-1);
      } else {
        open.push_back(std::move(work));
      }
    }
    all.clear();
    lock.lock();
    messages_.splice(messages_.end(), open);
  }
}

void Completion::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    news_ = true;
    changed_.notify_all();
    poked_.notify_all();
    tasked_.notify_all();
  }
  for (std::thread* thread : {&collective_thread_, &message_thread_, &task_thread_}) {
    if (!thread->joinable()) continue;
    if (thread->get_id() == std::this_thread::get_id()) {
      thread->detach();
    } else {
      thread->join();
    }
  }
}

}  // namespace sumcast_torch
