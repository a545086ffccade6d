// What c10 asks of a device: which is current, streams, events, allocators.
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime.h"

namespace toy {
namespace {

constexpr auto kType = c10::DeviceType::PrivateUse1;
constexpr int64_t kPool = 32;  // Streams, as CUDA has them.

thread_local c10::DeviceIndex current_device = 0;
thread_local std::array<int64_t, kDevices> current_streams{};

/// With its number.
c10::Device named(c10::Device device) {
  return {kType, device.index() < 0 ? current_device : device.index()};
}

struct Mark {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::chrono::steady_clock::time_point at;

  void wait() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return done; });
  }
  void reach() {
    const std::lock_guard lock(mutex);
    done = true;
    at = std::chrono::steady_clock::now();
    changed.notify_all();
  }
};

/// Device memory, freed in the order of the stream that was current when it was allocated, and
/// behind what others that use it have queued by then, as caching allocators do.
struct Block {
  void* memory;
  c10::Stream stream;
  std::mutex mutex;
  std::vector<c10::Stream> users;

  static void drop(void* context) {
    const std::unique_ptr<Block> gone(static_cast<Block*>(context));
    // Whoever passes by last frees it: no stream waits for another, as none does on a real device.
    const std::shared_ptr<void> held(gone->memory, [](void* memory) { release(memory); });
    queue(gone->stream, [held] {});
    for (const c10::Stream& user : gone->users) queue(user, [held] {});
  }
};

struct Event {
  std::shared_ptr<Mark> mark;
};

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kType; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    setDevice(device);
    return before;
  }
  c10::Device getDevice() const override { return {kType, current_device}; }
  void setDevice(c10::Device device) const override {
    TORCH_CHECK(device.index() < kDevices, "there is no ", device);
    if (device.index() >= 0) current_device = device.index();
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.index() >= 0) current_device = device.index();
  }
  c10::Stream getStream(c10::Device device) const override {
    return current_stream(device.index());
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, named(device));
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    static std::atomic<int64_t> next{0};
    return c10::Stream(c10::Stream::UNSAFE, named(device), 1 + next++ % kPool);
  }
  c10::Stream getNewStream(c10::Device device, int) const override {
    return getStreamFromGlobalPool(device, false);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::Stream before = current_stream(stream.device_index());
    current_streams[stream.device_index()] = stream.id();
    return before;
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override {
    return native_handle(stream);
  }
  c10::DeviceIndex deviceCount() const noexcept override { return kDevices; }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex,
              const c10::EventFlag) const override {
    check_alive();
    if (*event == nullptr) *event = new Event;
    auto mark = std::make_shared<Mark>();
    static_cast<Event*>(*event)->mark = mark;
    queue(stream, [mark] { mark->reach(); });
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event == nullptr) return;
    check_alive();
    queue(stream, [mark = static_cast<Event*>(event)->mark] { mark->wait(); });
  }
  bool queryEvent(void* event) const override {
    if (event == nullptr) return true;
    check_alive();
    Mark& mark = *static_cast<Event*>(event)->mark;
    const std::lock_guard lock(mark.mutex);
    return mark.done;
  }
  void synchronizeEvent(void* event) const override {
    if (event == nullptr) return;
    check_alive();
    static_cast<Event*>(event)->mark->wait();
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<Event*>(event);
  }
  double elapsedTime(void* from, void* to, const c10::DeviceIndex) const override {
    return std::chrono::duration<double, std::milli>(static_cast<Event*>(to)->mark->at -
                                                     static_cast<Event*>(from)->mark->at)
        .count();
  }
  bool queryStream(const c10::Stream& stream) const override {
    synchronize(stream);
    return true;
  }
  void synchronizeStream(const c10::Stream& stream) const override { synchronize(stream); }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    if (data.get_deleter() != &Block::drop) return;
    auto* block = static_cast<Block*>(data.get_context());
    const std::lock_guard lock(block->mutex);
    block->users.push_back(stream);
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

struct DeviceAllocator final : at::Allocator {
  at::DataPtr allocate(size_t bytes) override {
    check_alive();
    auto* block = new Block{toy::allocate(bytes), current_stream(current_device), {}, {}};
    return {block->memory, block, &Block::drop, c10::Device(kType, current_device)};
  }
  at::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

DeviceAllocator device_allocator;
REGISTER_ALLOCATOR(kType, &device_allocator);

struct PinnedAllocator final : at::HostAllocator {
  at::DataPtr allocate(size_t bytes) override {
    void* memory = allocate_pinned(bytes);
    return {memory, memory, &release, at::kCPU};
  }
  at::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
  bool record_event(void*, void*, c10::Stream) override { return true; }
  void empty_cache() override {}
  at::HostStats get_stats() override { return {}; }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}
};

PinnedAllocator pinned_allocator;

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return kDevices; }
  c10::DeviceIndex getCurrentDevice() const override { return current_device; }
  void setCurrentDevice(c10::DeviceIndex device) const override { current_device = device; }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    return std::exchange(current_device, device);
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override {
    return device < 0 ? current_device : exchangeDevice(device);
  }
  at::Allocator* getPinnedMemoryAllocator() const override { return &pinned_allocator; }
  bool isPinnedPtr(const void* memory) const override { return is_pinned(memory); }
  at::Device getDeviceFromPtr(void*) const override { return {kType, current_device}; }
  /// FSDP lets go of what it has gathered so, and takes memory again.
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    auto* impl = storage.unsafeGetStorageImpl();
    const size_t kept = std::min(bytes, impl->nbytes());
    at::DataPtr fresh(nullptr, impl->device());
    if (bytes > 0) fresh = device_allocator.allocate(bytes);
    if (kept > 0) {
      const c10::Stream stream = current_stream(impl->device().index());
      queue(stream, [to = fresh.get(), from = impl->data(), kept] { std::memcpy(to, from, kept); });
      synchronize(stream);
    }
    impl->set_data_ptr_noswap(std::move(fresh));
    impl->set_nbytes(bytes);
  }
};

[[maybe_unused]] const bool registered = [] {
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  at::setHostAllocator(kType, &pinned_allocator);
  return true;
}();

}  // namespace

void* native_handle(const c10::Stream& stream) {
  return reinterpret_cast<void*>((static_cast<uintptr_t>(stream.device_index()) << 32) +
                                 static_cast<uintptr_t>(stream.id()) + 1);
}

c10::Stream stream_of(void* native) {
  const uintptr_t number = reinterpret_cast<uintptr_t>(native) - 1;
  return c10::Stream(c10::Stream::UNSAFE,
                     c10::Device(kType, static_cast<c10::DeviceIndex>(number >> 32)),
                     static_cast<int64_t>(number & 0xFFFFFFFF));
}

c10::Stream current_stream(c10::DeviceIndex device) {
  if (device < 0) device = current_device;
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kType, device), current_streams[device]);
}

}  // namespace toy
