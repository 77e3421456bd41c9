// Matches the GPUs in a list of devices with those in a list made at another time. A GPU that could
// not be described has a single entry in a list, even if it is divided into MIG instances.
#pragma once

#include <span>
#include <vector>

#include "gpu/probe.h"

namespace carma::gpu {

// The consecutive entries of a list that belong to one GPU: the whole GPU or its MIG instances.
// Valid as long as the list is.
using GpuEntries = std::span<const DeviceInfo>;

// Divides a list by GPU, in the same order as NumbersOfWhole() (own_devices.h).
std::vector<GpuEntries> EntriesByGpu(const std::vector<DeviceInfo>& devices);
// For each GPU of `devices`, its entries in `others`; empty if it is not found. GPUs are matched by
// UUID. A GPU whose UUID is unknown in one of the lists is matched by its address. If that is
// unknown too, it is matched by its number, provided that all GPUs with known UUIDs have the same
// numbers in both lists.
std::vector<GpuEntries> SameGpus(const std::vector<DeviceInfo>& devices,
                                 const std::vector<DeviceInfo>& others);

// True if the UUID is made up because the driver did not report it.
bool IsUnidentified(const DeviceInfo& device);
// True if the driver described the device. The device may still be unusable, such as a GPU without
// instances or an instance that shares its memory.
bool IsDescribed(const DeviceInfo& device);
// True if this entry may stand for all instances of a GPU that could not be described.
bool StandsForOthers(const DeviceInfo& device);
// The entry for `device` among the entries of its GPU at another time: the entry with its UUID or,
// failing that, one that may stand for it. Null if there is none. If `device` is a GPU without a
// known UUID, the first entry is returned.
const DeviceInfo* EntryFor(const DeviceInfo& device, GpuEntries entries);

}  // namespace carma::gpu
