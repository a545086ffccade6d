// What travels between nodes.
#ifndef PS_INTERNAL_MESSAGE_H_
#define PS_INTERNAL_MESSAGE_H_

#include <cstdint>
#include <limits>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include "ps/sarray.h"

namespace ps {

enum DataType {
  CHAR,
  INT8,
  INT16,
  INT32,
  INT64,
  UINT8,
  UINT16,
  UINT32,
  UINT64,
  FLOAT,
  DOUBLE,
  OTHER
};

template <typename V>
DataType GetDataType() {
  using T = typename std::remove_cv<V>::type;
  return std::is_same<T, char>::value       ? CHAR
         : std::is_same<T, int8_t>::value   ? INT8
         : std::is_same<T, int16_t>::value  ? INT16
         : std::is_same<T, int32_t>::value  ? INT32
         : std::is_same<T, int64_t>::value  ? INT64
         : std::is_same<T, uint8_t>::value  ? UINT8
         : std::is_same<T, uint16_t>::value ? UINT16
         : std::is_same<T, uint32_t>::value ? UINT32
         : std::is_same<T, uint64_t>::value ? UINT64
         : std::is_same<T, float>::value    ? FLOAT
         : std::is_same<T, double>::value   ? DOUBLE
                                            : OTHER;
}

/// A process of the job, as others reach it.
struct Node {
  static const int kEmpty = std::numeric_limits<int>::max();
  enum Role { SERVER, WORKER, SCHEDULER };

  Role role = SERVER;
  int id = kEmpty;
  int customer_id = 0;
  std::string hostname;
  int port = kEmpty;
  bool is_recovery = false;  ///< Always false: a job that lost a node ends (docs/ps-lite.md).

  std::string DebugString() const {
    std::ostringstream text;
    text << "role=" << (role == SERVER ? "server" : role == WORKER ? "worker" : "scheduler");
    if (id != kEmpty) text << ", id=" << id;
    text << ", ip=" << hostname << ", port=" << port << ", is_recovery=" << is_recovery;
    return text.str();
  }
  std::string ShortDebugString() const {
    const std::string letter = role == SERVER ? "S" : role == WORKER ? "W" : "H";
    return id == kEmpty ? letter : letter + "[" + std::to_string(id) + "]";
  }
};

struct Control {
  enum Command { EMPTY, TERMINATE, ADD_NODE, BARRIER, ACK, HEARTBEAT };

  Command cmd = EMPTY;
  std::vector<Node> node;
  int barrier_group = 0;
  uint64_t msg_sig = 0;

  bool empty() const { return cmd == EMPTY; }
};

struct Meta {
  static const int kEmpty = std::numeric_limits<int>::max();

  int head = kEmpty;
  int app_id = kEmpty;
  int customer_id = kEmpty;
  int timestamp = kEmpty;
  int sender = kEmpty;
  int recver = kEmpty;
  bool request = false;
  bool push = false;
  bool pull = false;
  bool simple_app = false;
  std::string body;
  std::vector<DataType> data_type;  ///< Of data[i] of the message.
  Control control;         ///< Empty in what programs see: the library's own frames differ.
  uint64_t data_size = 0;  ///< Bytes of all data.
  int priority = 0;

  std::string DebugString() const {
    std::ostringstream text;
    if (sender == kEmpty) {
      text << "?";
    } else {
      text << sender;
    }
    text << " => " << recver << ": " << (request ? "request" : "response");
    if (timestamp != kEmpty) text << " " << timestamp;
    text << ", app " << app_id << ", customer " << customer_id;
    if (simple_app) text << ", simple_app";
    if (push) text << ", push";
    if (pull) text << ", pull";
    if (head != kEmpty) text << ", head " << head;
    if (!body.empty()) text << ", body " << body;
    return text.str();
  }
};

struct Message {
  Meta meta;
  std::vector<SArray<char>> data;

  template <typename V>
  void AddData(const SArray<V>& val) {
    CHECK_EQ(data.size(), meta.data_type.size());
    meta.data_type.push_back(GetDataType<V>());
    meta.data_size += val.size() * sizeof(V);
    data.push_back(SArray<char>(val));
  }

  std::string DebugString() const {
    std::ostringstream text;
    text << meta.DebugString();
    for (const SArray<char>& d : data) text << ", " << d.size() << " bytes";
    return text.str();
  }
};

}  // namespace ps
#endif  // PS_INTERNAL_MESSAGE_H_
