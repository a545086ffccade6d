#include "ps/retainer.h"

#include <utility>

namespace sumcast::ps {

void Retainer::keep(int server, const ::ps::Message& message) {
  OfServer& of = servers_[server];
  of.places[id_of(message.meta)] = of.in_order.insert(of.in_order.end(), message);
}

bool Retainer::on_answer(int server, const RequestId& id, uint64_t answer_bytes) {
  OfServer& of = servers_[server];
  const auto place = of.places.find(id);
  if (place == of.places.end()) return false;
  if (place->second->meta.push) {
    of.settled.push_back(id);
    of.settled_bytes += answer_bytes;
  }
  of.in_order.erase(place->second);
  of.places.erase(place);
  return true;
}

std::vector<::ps::Message> Retainer::unanswered(int server) const {
  std::vector<::ps::Message> messages;
  if (const auto it = servers_.find(server); it != servers_.end()) {
    messages.assign(it->second.in_order.begin(), it->second.in_order.end());
  }
  return messages;
}

std::vector<RequestId> Retainer::settled(int server) {
  OfServer& of = servers_[server];
  if (of.settled.size() < kStep && of.settled_bytes < kBytesStep) return {};
  of.settled_bytes = 0;
  return std::exchange(of.settled, {});
}

}  // namespace sumcast::ps
