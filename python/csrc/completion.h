// Threads that complete works on behalf of their futures, which users chain on without waiting.
//
// Collectives of a group end in their order, so one thread waits for the next. Messages end when
// peers please, and a collective may wait for what a message's future sets off; so they have a
// thread of their own, woken when one has ended. A third runs what takes several rounds (sparse
// all-reduce). None starts before it is needed.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

namespace sumcast_torch {

class SumcastWork;

class Completion : public std::enable_shared_from_this<Completion> {
 public:
  /// Completes `work` as soon as it has ended.
  void await(c10::intrusive_ptr<SumcastWork> work);
  /// Runs something that may block, behind what was given before.
  void run(std::function<void()> task);
  /// A message has ended. Cheap, never blocks for long.
  void poke();
  /// Ends the threads, once all that they wait for has ended. Threads that call this (from within a
  /// callback of a future) are let go instead.
  void stop();

 private:
  void run_collectives();
  void run_messages();
  void run_tasks();

  std::mutex mutex_;
  std::condition_variable changed_, poked_, tasked_;
  std::deque<c10::intrusive_ptr<SumcastWork>> collectives_;
  std::list<c10::intrusive_ptr<SumcastWork>> messages_;
  std::deque<std::function<void()>> tasks_;
  bool news_ = false;
  bool stopping_ = false;
  std::thread collective_thread_, message_thread_, task_thread_;
};

}  // namespace sumcast_torch
