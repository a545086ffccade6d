#include "completion.h"

#include <algorithm>

#include "work.h"

namespace sumcast_torch {
namespace {

/// How long a callback may take before another thread takes the post, times the threads that are
/// away: most callbacks are short, or wait for Python's lock, and want no company.
constexpr std::chrono::milliseconds kGrace{10};

}  // namespace

thread_local Completion::Seat* Completion::seat_ = nullptr;

/// Threads hold this object, so none is left but those that have ended, and the one that runs this.
Completion::~Completion() {
  for (auto* threads : {&threads_, &ended_}) {
    for (std::thread& thread : *threads) thread.detach();
  }
}

void Completion::await(c10::intrusive_ptr<SumcastWork> work) {
  const std::lock_guard lock(mutex_);
  const bool is_message = work->is_message();
  Post& post = is_message ? messages_ : collectives_;
  if (is_message) {
    open_.push_back(std::move(work));
    news_ = true;
  } else {
    collectives_.tasks.push_back([work = std::move(work)] { work->settle(-1); });
  }
  post.urgent |= is_in_callback();
  call_for(post);
}

void Completion::run(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  rounds_.tasks.push_back(std::move(task));
  rounds_.urgent |= is_in_callback();
  call_for(rounds_);
}

void Completion::announce(std::function<void()> callbacks) {
  const std::lock_guard lock(mutex_);
  announcements_.tasks.push_back([callbacks = std::move(callbacks)] {
    leave_post();
    callbacks();
  });
  announcements_.urgent |= announcements_.away > 0;  // Who is away may wait for this one.
  call_for(announcements_);
}

void Completion::poke() {
  const std::lock_guard lock(mutex_);
  news_ = true;
  messages_.changed.notify_all();
}

/// Somebody is to look after the post, which is not drained.
void Completion::call_for(Post& post) {
  if (post.manned) {
    post.changed.notify_all();
  } else {
    if (post.parked == 0) {
      for (std::thread& thread : ended_) thread.join();
      ended_.clear();
      ++post.parked;
      // The threads hold this object: the last other owner may go on one of them.
      threads_.emplace_back([self = shared_from_this(), &post] { self->serve(post); });
    } else if (post.urgent || !post.timed) {
      post.left.notify_all();  // Not for each short callback: waking it costs more than that.
    }
  }
}

bool Completion::is_in_callback() { return seat_ != nullptr && seat_->is_away; }

void Completion::leave_post() {
  Seat* seat = seat_;
  if (seat == nullptr || seat->is_away) return;
  seat->is_away = true;
  Post& post = *seat->post;
  const std::lock_guard lock(seat->completion->mutex_);
  post.manned = false;
  ++post.away;
  post.left_at = std::chrono::steady_clock::now();
  if (!seat->completion->is_drained(post)) seat->completion->call_for(post);
}

bool Completion::is_drained(const Post& post) const {
  return post.tasks.empty() && (&post != &messages_ || open_.empty());
}

bool Completion::has_news(const Post& post) const {
  return !post.tasks.empty() || (&post == &messages_ && news_);
}

/// Stands by until this thread is to man the post; false: it is not needed any more. It is counted
/// as parked before and, when this returns, no more.
bool Completion::take_post(std::unique_lock<std::mutex>& lock, Post& post) {
  for (;;) {
    if (stopping_ && (post.manned || is_drained(post))) break;
    if (post.manned || is_drained(post)) {
      post.left.wait(lock);
      continue;
    }
    const auto due = post.left_at + kGrace * post.away;
    if (post.away == 0 || post.urgent || stopping_ || std::chrono::steady_clock::now() >= due) {
      --post.parked;
      post.manned = true;
      post.urgent = false;
      return true;
    }
    post.timed = true;
    post.left.wait_until(lock, due);
    post.timed = false;
  }
  --post.parked;
  return false;
}

void Completion::serve(Post& post) {
  Seat seat{this, &post, false};
  seat_ = &seat;
  std::unique_lock lock(mutex_);
  bool stays = take_post(lock, post);
  while (stays) {  // At the post.
    post.changed.wait(lock, [&] { return has_news(post) || (stopping_ && is_drained(post)); });
    if (!has_news(post)) {
      post.manned = false;
      break;
    }
    if (&post == &messages_ && news_) look_at_messages(lock);
    if (post.tasks.empty()) continue;
    Task task = std::move(post.tasks.front());
    post.tasks.pop_front();
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
    if (!seat.is_away) continue;
    seat.is_away = false;
    --post.away;
    if (!post.manned) {
      post.manned = true;
      post.urgent = false;
    } else if (post.parked > 0) {
      stays = false;
    } else {
      ++post.parked;
      stays = take_post(lock, post);
    }
  }
  post.left.notify_all();
  seat_ = nullptr;
  forget_this_thread();
}

/// Those that have ended become tasks. The library is asked without the lock: it pokes with its
/// own.
void Completion::look_at_messages(std::unique_lock<std::mutex>& lock) {
  news_ = false;
  std::list<c10::intrusive_ptr<SumcastWork>> all = std::move(open_), ended;
  open_.clear();
  lock.unlock();
  for (auto it = all.begin(); it != all.end();) {
    const auto here = it++;
    if ((*here)->is_ended()) ended.splice(ended.end(), all, here);
  }
  lock.lock();
  open_.splice(open_.begin(), all);
  for (auto& work : ended) {
    messages_.tasks.push_back([work = std::move(work)] { work->settle(-1); });
  }
}

/// Whoever joins it finds it past its last lock.
void Completion::forget_this_thread() {
  const auto here = std::find_if(threads_.begin(), threads_.end(), [](const std::thread& thread) {
    return thread.get_id() == std::this_thread::get_id();
  });
  if (here != threads_.end()) ended_.splice(ended_.end(), threads_, here);
}

void Completion::stop() {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  news_ = true;
  for (Post* post : {&collectives_, &messages_, &rounds_, &announcements_}) {
    post->changed.notify_all();
    post->left.notify_all();
  }
  while (!threads_.empty() || !ended_.empty()) {
    auto& from = threads_.empty() ? ended_ : threads_;
    std::thread thread = std::move(from.front());
    from.pop_front();
    lock.unlock();
    if (thread.get_id() == std::this_thread::get_id()) {
      thread.detach();
    } else {
      thread.join();
    }
    lock.lock();
  }
}

}  // namespace sumcast_torch
