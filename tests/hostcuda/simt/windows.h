// SPDX-License-Identifier: Apache-2.0
#pragma once

// Maps three pages of 2 MiB of device memory with shadows, shared with child processes: the first belongs to device 0,
// the others to device 1. The fourth page is a multicast address of these three, the fifth one without members. Returns
// the address of the first.
char* map_windows();
