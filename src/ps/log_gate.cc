#include "ps/log_gate.h"

#include <utility>

namespace sumcast::ps {

bool LogGate::pass(const ::ps::Message& response) {
  if (!has_backup_) return true;
  OfApp& app = apps_[response.meta.app_id];
  if (app.handled == app.logged) return true;
  app.held.emplace_back(app.logged, response);
  return false;
}

bool LogGate::on_handled(int app, uint64_t count, std::vector<::ps::Message>& free) {
  if (!has_backup_) return true;
  OfApp& of = apps_[app];
  if (count < of.handled || count > of.logged) return false;
  of.handled = count;
  while (!of.held.empty() && of.held.front().first <= count) {
    free.push_back(std::move(of.held.front().second));
    of.held.pop_front();
  }
  return true;
}

std::vector<::ps::Message> LogGate::open() {
  std::vector<::ps::Message> all;
  for (auto& [app, of] : apps_) {
    for (auto& [behind, message] : of.held) all.push_back(std::move(message));
  }
  reset(false);
  return all;
}

}  // namespace sumcast::ps
