# SPDX-License-Identifier: Apache-2.0
"""Arguments that C would cut or guess are refused before anything is called; no library is needed."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import lagom.nccl as nccl
from lagom.nccl import start
from lagom.nccl.checks import whole
from lagom.nccl.streams import stream_address


def test_whole_numbers() -> None:
    assert whole(3, "n", 0, 5) == 3
    number = whole(np.int64(5), "n", 0, 5)
    assert number == 5 and type(number) is int
    for wrong in (1.5, "1", None, True, np.float32(1)):
        with pytest.raises(TypeError, match=r"^n is .*a whole number is needed"):
            whole(wrong, "n", 0, 5)
    with pytest.raises(ValueError, match=r"^n 6: allowed is 0 to 5$"):
        whole(6, "n", 0, 5)


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: nccl.empty(1.5), TypeError, "count is 1.5"),  # type: ignore[arg-type]
        (lambda: nccl.empty(1 << 62, "float64"), ValueError, "count 4611686018427387904: allowed is 0 to"),
        (lambda: nccl.empty(4, None), TypeError, "an element type is needed"),  # type: ignore[arg-type]
        (lambda: nccl.Stream(priority=0.5), TypeError, "priority is 0.5"),  # type: ignore[arg-type]
        (lambda: stream_address(-1), ValueError, "stream -1"),
        (lambda: nccl.Kernel("k", flops=1, ctas=1 << 40), ValueError, "kernel k: ctas 1099511627776"),
        (lambda: nccl.Kernel("k", flops=1, ctas=1.5), TypeError, "kernel k: ctas is 1.5"),  # type: ignore[arg-type]
        (lambda: nccl.Kernel("k", flops=float("inf")), ValueError, "flops is inf"),
        (lambda: nccl.Kernel("a\0b", flops=1), ValueError, "without zero bytes"),
        (lambda: nccl.Knobs(channels=True), ValueError, "channels is True"),
        (lambda: nccl.Knobs(channels=1 << 40), ValueError, "channels is 1099511627776"),
        (lambda: nccl.Rule("all_reduce", 0, 1 << 70), ValueError, "max_bytes 1180591620717411303424"),
        (lambda: nccl.Rule("all_reduce", 0.5, 10), TypeError, "min_bytes is 0.5"),  # type: ignore[arg-type]
        (lambda: nccl.Config(max_ctas="2"), TypeError, "max_ctas is '2'"),  # type: ignore[arg-type]
        (lambda: nccl.Config(max_ctas=1 << 40), ValueError, "max_ctas 1099511627776"),
        (lambda: nccl.Config(name=5), TypeError, "name is 5"),  # type: ignore[arg-type]
    ],
)
def test_refused(call: Callable[[], Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert text in str(caught.value)


@pytest.mark.parametrize("name", ["LAGOM_PLAN", "LAGOM_REQUIRE"])
def test_a_stock_library_does_not_run_without_the_plan(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    library = SimpleNamespace(patched=False, path="/stock/libnccl.so.2")
    monkeypatch.setattr(start, "library", lambda: library)
    for other in ("LAGOM_PLAN", "LAGOM_REQUIRE"):
        monkeypatch.delenv(other, raising=False)
    assert start._fields(None) == {}
    monkeypatch.setenv(name, "1")
    with pytest.raises(nccl.LibraryError, match=f"{name} is set, and /stock/libnccl.so.2 is not patched"):
        start._fields(None)
    library.patched = True
    assert start._fields(None) == {}
