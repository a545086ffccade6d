#include "gate.h"

#include <dlfcn.h>

#include <array>
#include <atomic>

namespace sumcast_torch {
namespace {

std::array<std::atomic<StreamGate>,
           static_cast<size_t>(c10::DeviceType::COMPILE_TIME_MAX_DEVICE_TYPES)>
    gates{};
std::atomic<bool> queueing_ahead{false};

/// From libcuda, where torch has loaded it.
void* of_driver(const char* name) {
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  return driver != nullptr ? dlsym(driver, name) : nullptr;
}

/// Host memory that was pinned has the same address on the device (unified addressing).
int cuda_gate(void* stream, const uint32_t* word) {
  using Wait = int (*)(void* stream, unsigned long long address, uint32_t value, unsigned flags);
  static const auto wait = reinterpret_cast<Wait>(of_driver("cuStreamWaitValue32_v2"));
  constexpr unsigned kAtLeast = 0;  // CU_STREAM_WAIT_VALUE_GEQ
  return wait == nullptr ? -1 : wait(stream, reinterpret_cast<uintptr_t>(word), 1, kAtLeast);
}

}  // namespace

void set_stream_gate(c10::DeviceType type, StreamGate gate) {
  gates[static_cast<size_t>(type)] = gate;
}

StreamGate stream_gate_of(c10::DeviceType type) {
  const StreamGate brought = gates[static_cast<size_t>(type)];
  if (brought != nullptr) return brought;
  return type == c10::DeviceType::CUDA ? &cuda_gate : nullptr;
}

void set_queueing_ahead(bool on) { queueing_ahead = on; }
bool is_queueing_ahead() { return queueing_ahead; }

}  // namespace sumcast_torch
