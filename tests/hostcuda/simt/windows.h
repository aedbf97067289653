// SPDX-License-Identifier: Apache-2.0
#pragma once

// Maps two pages of 2 MiB of device memory with shadows, shared with child processes: the first belongs to device 0,
// the second to device 1. Returns the address of the first.
char* map_windows();
