# SPDX-License-Identifier: Apache-2.0
"""Devices that run an overlap workload under knobs."""

from __future__ import annotations

from lagom.device.protocol import (
    CommunicationUse,
    Device,
    DeviceError,
    KnobMap,
    Measurement,
    Outcome,
    Refused,
    Span,
)

__all__ = ["CommunicationUse", "Device", "DeviceError", "KnobMap", "Measurement", "Outcome", "Refused", "Span"]
