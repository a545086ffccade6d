// Threads that complete works on behalf of their futures, which users chain on without waiting.
//
// Collectives of a group end in their order, so one thread waits for the next. Messages end when
// peers please, and a collective may wait for what a message's future sets off; so they have a
// thread of their own, woken when one has ended. A third runs what takes several rounds (sparse
// all-reduce). None starts before it is needed.
//
// Callbacks of futures run on these threads, and one may wait for another future of its group. So a
// queue is a post that one thread mans; who goes to run callbacks leaves the post, and another
// takes it: at once if a callback begins an operation with a future, otherwise if it stays away for
// long. The absent one comes back or, if the post is taken and a spare thread stands by, ends.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
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
  Completion() = default;
  ~Completion();
  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;

  /// Completes `work` as soon as it has ended.
  void await(c10::intrusive_ptr<SumcastWork> work);
  /// Runs something that may block, behind what was given before.
  void run(std::function<void()> task);
  /// Runs callbacks, on a thread that may wait for anything of this group.
  void announce(std::function<void()> callbacks);
  /// A message has ended. Cheap, never blocks for long.
  void poke();
  /// Ends the threads, once all that they wait for has ended. Threads that call this (from within a
  /// callback of a future) are let go instead.
  void stop();
  /// The calling thread goes to run callbacks. Of no effect on threads that are not a Completion's.
  static void leave_post();

 private:
  using Task = std::function<void()>;

  struct Post {
    std::deque<Task> tasks;
    std::condition_variable changed;  // For who mans it.
    std::condition_variable left;     // For who stands by.
    /// When it was last left.
    std::chrono::steady_clock::time_point left_at;
    bool manned = false;
    bool urgent = false;  // A callback waits, or will.
    int away = 0;         // Threads that run callbacks.
    int parked = 0;       // Threads that stand by to take the post: one at most.
    bool timed = false;   // It will look again by itself.
  };

  /// Where a thread of ours is.
  struct Seat {
    Completion* completion;
    Post* post;
    bool is_away;
  };
  static thread_local Seat* seat_;
  static bool is_in_callback();

  // All called with the lock held.
  void call_for(Post& post);
  bool is_drained(const Post& post) const;
  bool has_news(const Post& post) const;
  bool take_post(std::unique_lock<std::mutex>& lock, Post& post);
  void look_at_messages(std::unique_lock<std::mutex>& lock);
  void forget_this_thread();

  void serve(Post& post);

  std::mutex mutex_;
  Post collectives_, messages_, rounds_, announcements_;
  std::list<c10::intrusive_ptr<SumcastWork>> open_;  // Messages under way.
  bool news_ = false;                                // One of them may have ended.
  bool stopping_ = false;
  std::list<std::thread> threads_;
  std::list<std::thread> ended_;  // To be joined; they take no lock any more.
};

}  // namespace sumcast_torch
