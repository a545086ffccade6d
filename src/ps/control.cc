#include "ps/control.h"

#include <nlohmann/json.hpp>

namespace sumcast::ps {
namespace {

using nlohmann::json;

/// A member of the type of `otherwise`, or that.
template <typename T>
T member(const json& object, const char* name, T otherwise) {
  const auto it = object.find(name);
  if (it == object.end()) return otherwise;
  const bool fits = std::is_same_v<T, std::string> ? it->is_string() : it->is_number_integer();
  return fits ? it->template get<T>() : otherwise;
}

json node_json(const ::ps::Node& node) {
  return {{"role", static_cast<int>(node.role)},
          {"id", node.id},
          {"host", node.hostname},
          {"port", node.port},
          {"customer", node.customer_id}};
}

bool read_node(const json& object, ::ps::Node& node) {
  if (!object.is_object()) return false;
  const int role = member(object, "role", -1);
  if (role != ::ps::Node::SERVER && role != ::ps::Node::WORKER) return false;
  node.role = static_cast<::ps::Node::Role>(role);
  node.id = member(object, "id", ::ps::Node::kEmpty);
  node.hostname = member(object, "host", std::string());
  node.port = member(object, "port", 0);
  node.customer_id = member(object, "customer", 0);
  return !node.hostname.empty() && node.port > 0 && node.port < 65536;
}

}  // namespace

int to_number(std::optional<::ps::Partition> partition) {
  if (!partition) return 0;
  return *partition == ::ps::Partition::kRanges ? 1 : 2;
}

std::optional<::ps::Partition> to_partition(int number) {
  if (number == 1) return ::ps::Partition::kRanges;
  if (number == 2) return ::ps::Partition::kHash;
  return std::nullopt;
}

std::string to_text(const ControlMessage& message) {
  json object = {{"kind", message.kind}};
  if (message.node >= 0) object["node"] = message.node;
  if (message.epoch != 0) object["epoch"] = message.epoch;
  if (message.customer != 0) object["customer"] = message.customer;
  if (message.group != 0) object["group"] = message.group;
  if (message.token != 0) object["token"] = message.token;
  if (message.replicas != 0) object["replicas"] = message.replicas;
  if (message.merging != 0) object["merging"] = message.merging;
  if (message.partition != 0) object["partition"] = message.partition;
  if (message.asks != 0) object["asks"] = message.asks;
  if (message.patient != 0) object["patient"] = message.patient;
  if (message.dare != 0) object["dare"] = message.dare;
  if (message.pid != 0) object["pid"] = message.pid;
  if (message.address != 0) object["address"] = message.address;
  if (!message.why.empty()) object["why"] = message.why;
  if (!message.nodes.empty()) {
    json nodes = json::array();
    for (const auto& node : message.nodes) nodes.push_back(node_json(node));
    object["nodes"] = std::move(nodes);
  }
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<ControlMessage> parse_control(std::string_view text) {
  const json object = json::parse(text.begin(), text.end(), nullptr, false);
  if (!object.is_object()) return fail(ErrorCode::kDenied, "a control frame is no JSON object");
  ControlMessage message;
  message.kind = member(object, "kind", std::string());
  message.node = member(object, "node", -1);
  message.epoch = member(object, "epoch", uint64_t{0});
  message.customer = member(object, "customer", 0);
  message.group = member(object, "group", 0);
  message.token = member(object, "token", uint64_t{0});
  message.replicas = member(object, "replicas", 0);
  message.merging = member(object, "merging", uint64_t{0});
  message.partition = member(object, "partition", 0);
  message.asks = member(object, "asks", 0);
  message.patient = member(object, "patient", 0);
  message.dare = member(object, "dare", uint64_t{0});
  message.pid = member(object, "pid", 0);
  message.address = member(object, "address", uint64_t{0});
  message.why = member(object, "why", std::string());
  if (const auto nodes = object.find("nodes"); nodes != object.end() && nodes->is_array()) {
    for (const json& entry : *nodes) {
      ::ps::Node node;
      if (!read_node(entry, node))
        return fail(ErrorCode::kDenied, "a control frame has a bad node");
      message.nodes.push_back(std::move(node));
    }
  }
  if (message.kind.empty()) return fail(ErrorCode::kDenied, "a control frame without a kind");
  return message;
}

}  // namespace sumcast::ps
