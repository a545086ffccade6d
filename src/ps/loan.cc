#include "ps/loan.h"

#include <sys/uio.h>

#include <algorithm>
#include <cerrno>

#include "net/descriptor.h"

namespace sumcast::ps {

Result<void> read_memory(pid_t process, uint64_t address, void* to, size_t bytes) {
  constexpr size_t kStep = size_t{1} << 30;  // The kernel takes less than 2 GiB at once.
  for (size_t done = 0; done < bytes;) {
    const iovec local{static_cast<char*>(to) + done, std::min(kStep, bytes - done)};
    const iovec remote{reinterpret_cast<void*>(address + done), local.iov_len};
    const ssize_t got = ::process_vm_readv(process, &local, 1, &remote, 1, 0);
    if (got <= 0) {
      return fail(net::system_error("cannot read another process's memory", got < 0 ? errno : EIO));
    }
    done += static_cast<size_t>(got);
  }
  return {};
}

}  // namespace sumcast::ps
