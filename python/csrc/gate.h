// Making a stream wait for a word that the host writes later.
//
// CUDA's driver has such an operation (cuStreamWaitValue32). It is looked up in the driver that the
// process has loaded, so nothing of CUDA is needed to build this. Makers of other devices may bring
// their own.
#pragma once

#include <c10/core/Stream.h>

#include <cstdint>

namespace sumcast_torch {

/// Queues on a device's own stream that what follows waits until *word is 1 or more.
/// @param word  in pinned memory.
/// @return 0; anything else: it does not, and nothing was queued.
using StreamGate = int (*)(void* native_stream, const uint32_t* word);

void set_stream_gate(c10::DeviceType type, StreamGate gate);
/// nullptr: this kind of device has none.
StreamGate stream_gate_of(c10::DeviceType type);

/// May calls be queued ahead, with copies back that wait for the network on the device? See
/// staging_ahead.cc. Of the process; off to begin with.
void set_queueing_ahead(bool on);
bool is_queueing_ahead();

}  // namespace sumcast_torch
