#include "ps/routes.h"

namespace sumcast::ps {

void Routes::reset(int servers, bool replicated) {
  replicated_ = replicated;
  alive_.assign(static_cast<size_t>(servers), true);
  at_.resize(static_cast<size_t>(servers));
  for (int i = 0; i < servers; ++i) at_[static_cast<size_t>(i)] = i;
}

std::vector<int> Routes::on_lost(int server) {
  std::vector<int> unanswered;
  if (!is_alive(server)) return unanswered;
  alive_[static_cast<size_t>(server)] = false;
  for (size_t i = 0; i < at_.size(); ++i) {
    if (at_[i] != server) continue;
    const bool own = static_cast<int>(i) == server;
    at_[i] = own && has_backup(server) ? backup_of(server) : -1;
    if (at_[i] < 0) unanswered.push_back(static_cast<int>(i));
  }
  return unanswered;
}

std::vector<int> Routes::on_left(int server) {
  std::vector<int> unanswered;
  alive_[static_cast<size_t>(server)] = false;
  for (size_t i = 0; i < at_.size(); ++i) {
    if (at_[i] != server) continue;
    at_[i] = -1;
    unanswered.push_back(static_cast<int>(i));
  }
  return unanswered;
}

}  // namespace sumcast::ps
