// SPDX-License-Identifier: Apache-2.0
#include "runtime/device.h"

#include "runtime/error.h"

namespace hostcuda::rt {
namespace {

std::vector<Device*> make_devices() {
  std::vector<Device*> made;  // never freed, as their streams may be used while the process ends
  const Machine* m = machine();
  for (int number = 0; m != nullptr && number < m->device_count(); ++number) {
    auto* device = new Device;
    device->number = number;
    device->place = m->visible[number];
    device->legacy = std::make_shared<Stream>();
    device->legacy->device = device;
    device->legacy->legacy = true;
    device->legacy->clock.device = device->place;
    device->streams.push_back(device->legacy);
    made.push_back(device);
  }
  return made;
}

}  // namespace

Device* device(int number) {
  static const auto* devices = new std::vector<Device*>(make_devices());
  return number >= 0 && number < static_cast<int>(devices->size()) ? (*devices)[number] : nullptr;
}

Device* current_device() { return device(t_state.device); }

cudaError_t device_failure(int number) {
  const Device* found = device(number);
  return found == nullptr ? cudaSuccess : found->failure.load();
}

Device* asked(int number) {
  Device* found = device(number);
  if (found == nullptr && machine() != nullptr && machine()->device_count() == 0) {
    complain("device %d does not exist: CUDA_VISIBLE_DEVICES shows none of the %zu of machine %s", number,
             machine()->gpus.size(), machine()->name.c_str());
  } else if (found == nullptr && machine() != nullptr) {
    complain("device %d does not exist: machine %s shows %d (0..%d)", number, machine()->name.c_str(),
             machine()->device_count(), machine()->device_count() - 1);
  }
  return found;
}

cudaError_t no_such_device() {
  return report(machine() == nullptr ? cudaErrorInitializationError : cudaErrorInvalidDevice);
}

}  // namespace hostcuda::rt
