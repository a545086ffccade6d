// Where answers to pulls may be received: the program's own arrays, instead of memory of ours from
// which they would be copied.
//
//   Wait ◀── program          posts a room for each server's part, asks, waits
//   posted ──claim──▶ Room    the leader has read the begin of the answer: its values go there
//   withdraw                  the request has failed: what is still to come goes elsewhere
//
// A room belongs to the program, which may take the memory back when Wait has returned. If Wait
// fails, it withdraws first: a room in which an answer stands half is replaced by memory of ours
// that has that half, so the reader notices nothing.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "ps/internal/message.h"

namespace sumcast::ps {

/// Memory into which an array is being received. Two threads: who receives, and who withdraws.
class Room {
 public:
  explicit Room(const ::ps::SArray<char>& memory) : memory_(memory) {}

  size_t size() const { return memory_.size(); }

  /// Calls `receive(char* to)`, which says how many bytes it has put there (at most size() - got)
  /// or that it failed (below 0). Nobody takes the memory away meanwhile. Returns what it said.
  template <typename Receive>
  ptrdiff_t fill(Receive&& receive) {
    const std::lock_guard lock(mutex_);
    const ptrdiff_t got = receive(memory_.data() + got_);
    if (got > 0) got_ += static_cast<size_t>(got);
    return got;
  }

  /// From now on the memory that it was made of is not touched any more. The values are elsewhere.
  void move_out();
  /// The array, once it is whole.
  ::ps::SArray<char> array() const;

 private:
  mutable std::mutex mutex_;
  ::ps::SArray<char> memory_;
  size_t got_ = 0;
};
using RoomPtr = std::shared_ptr<Room>;

/// All rooms of a process. Any thread.
class Rooms {
 public:
  /// Which answer: whose request, and which server's part of it.
  struct Name {
    int app = 0, customer = 0, timestamp = 0, server = 0;
    auto tie() const { return std::tie(app, customer, timestamp, server); }
    friend bool operator<(const Name& a, const Name& b) { return a.tie() < b.tie(); }
  };

  /// `memory` may be written until the request is done or withdrawn.
  void post(const Name& name, const ::ps::SArray<char>& memory);
  /// The room for an answer whose values have so many bytes; null if there is none of that size.
  /// Once: an answer that comes a second time gets none.
  RoomPtr claim(const Name& name, size_t bytes);
  /// The answer is whole, and has been handed over.
  void release(const Name& name);
  /// The request has failed, or is done.
  void withdraw(int app, int customer, int timestamp);
  /// All requests of a customer that is going.
  void withdraw(int app, int customer);
  /// A server has died: it will not finish what it has begun.
  void withdraw_server(int server);
  size_t size() const;

 private:
  struct Entry {
    ::ps::SArray<char> memory;
    RoomPtr claimed;
  };

  template <typename Matches>
  void withdraw_if(Matches&& matches);

  mutable std::mutex mutex_;
  std::map<Name, Entry> entries_;
};

}  // namespace sumcast::ps
