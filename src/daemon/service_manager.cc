#include "daemon/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstring>

#include "net/descriptor.h"

namespace sumcast::daemon {

void notify_service_manager(std::string_view state, const runtime::EnvironmentLookup& lookup) {
  const auto path = lookup("NOTIFY_SOCKET");
  sockaddr_un address{};
  if (!path || path->size() >= sizeof address.sun_path) return;
  if (path->front() != '/' && path->front() != '@') return;
  const net::FileDescriptor fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.is_open()) return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path->data(), path->size());
  if (path->front() == '@') address.sun_path[0] = '\0';  // An abstract name, not a file.
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path->size());
  (void)::sendto(fd.get(), state.data(), state.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
                 reinterpret_cast<const sockaddr*>(&address), bytes);
}

}  // namespace sumcast::daemon
