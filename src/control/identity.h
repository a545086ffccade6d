// How a process introduces itself when it joins: which host it shares with others, and its name.
#pragma once

#include <string>

namespace sumcast::control {

/// Equal in two threads exactly if they run under one kernel and in one network namespace (a
/// thread can have one of its own): "boot id:namespace inode". Containers have host names of their
/// own, so names will not do.
std::string host_identity();

/// "hostname:pid".
std::string process_name();

}  // namespace sumcast::control
