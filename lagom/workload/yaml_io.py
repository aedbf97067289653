# SPDX-License-Identifier: Apache-2.0
"""Workloads as YAML: ``docs/tuning.md`` has the schema; every error names file, line and column."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import yaml

from lagom.workload.gpus import MACHINES, Gpu
from lagom.workload.kernels import causal_attention, elementwise, gemm, layer_norm
from lagom.workload.model import (
    DTYPE_BYTES,
    Communication,
    Computation,
    KernelSpec,
    Operation,
    Workload,
    WorkloadError,
)

FORMAT = "lagom-workload/1"
#: A workload file is a page or two; anything larger is some other file.
MAX_FILE_BYTES = 4 << 20


def _fail(path: Path, node: yaml.Node, reason: str) -> NoReturn:
    mark = node.start_mark
    raise WorkloadError(f"{path}:{mark.line + 1}:{mark.column + 1}: {reason}")


@dataclass(frozen=True)
class _Reader:
    """Checked access to one mapping of the file."""

    path: Path
    node: yaml.MappingNode
    what: str
    entries: dict[str, yaml.Node]

    @classmethod
    def open(cls, path: Path, node: yaml.Node, what: str, allowed: tuple[str, ...]) -> _Reader:
        if not isinstance(node, yaml.MappingNode):
            _fail(path, node, f"{what} must be a mapping with the keys {', '.join(allowed)}")
        entries: dict[str, yaml.Node] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.value not in allowed:
                name = key.value if isinstance(key, yaml.ScalarNode) else "(not a word)"
                _fail(path, key, f"unknown key '{name}' in {what}, allowed: {', '.join(allowed)}")
            if key.value in entries:
                _fail(path, key, f"key '{key.value}' appears twice in {what}")
            entries[key.value] = value
        return cls(path, node, what, entries)

    def fail(self, key: str, reason: str) -> NoReturn:
        _fail(self.path, self.entries.get(key, self.node), reason)

    def need(self, key: str) -> yaml.Node:
        if key not in self.entries:
            _fail(self.path, self.node, f"{self.what} lacks the key '{key}'")
        return self.entries[key]

    def _scalar(self, key: str, kind: str) -> str:
        node = self.need(key)
        if not isinstance(node, yaml.ScalarNode):
            _fail(self.path, node, f"'{key}' of {self.what} must be {kind}")
        return str(node.value)

    def text(self, key: str, default: str | None = None) -> str:
        if key not in self.entries and default is not None:
            return default
        value = self._scalar(key, "a text")
        if not value and default is None:
            self.fail(key, f"'{key}' of {self.what} is empty")
        return value

    def integer(self, key: str, default: int | None = None) -> int:
        if key not in self.entries and default is not None:
            return default
        value = self._scalar(key, "a whole number")
        try:
            return int(value)  # accepts 78_671_360
        except ValueError:
            self.fail(key, f"'{key}' of {self.what} is '{value}', which is not a whole number")

    def number(self, key: str) -> float:
        value = self._scalar(key, "a number")
        try:
            return float(value)  # accepts 2.5e9, which YAML's own rules would read as a text
        except ValueError:
            self.fail(key, f"'{key}' of {self.what} is '{value}', which is not a number")

    def names(self, key: str) -> tuple[str, ...]:
        if key not in self.entries:
            return ()
        node = self.entries[key]
        if isinstance(node, yaml.ScalarNode) and node.value:
            return (str(node.value),)
        if not isinstance(node, yaml.SequenceNode):
            self.fail(key, f"'{key}' of {self.what} must be a name or a list of names")
        for item in node.value:
            if not isinstance(item, yaml.ScalarNode) or not item.value:
                _fail(self.path, item, f"'{key}' of {self.what} must list names")
        return tuple(str(item.value) for item in node.value)


_KERNEL_KEYS = (
    "flops",
    "bytes_read",
    "bytes_written",
    "ctas",
    "threads_per_cta",
    "registers_per_thread",
    "shared_bytes_per_cta",
)


def _read_kernel(reader: _Reader, _gpu: Gpu) -> KernelSpec:
    return KernelSpec(
        flops=reader.number("flops"),
        bytes_read=reader.number("bytes_read"),
        bytes_written=reader.number("bytes_written"),
        ctas=reader.integer("ctas"),
        threads_per_cta=reader.integer("threads_per_cta"),
        registers_per_thread=reader.integer("registers_per_thread"),
        shared_bytes_per_cta=reader.integer("shared_bytes_per_cta"),
    )


def _dtype(reader: _Reader) -> str:
    dtype = reader.text("dtype")
    if dtype not in DTYPE_BYTES:
        reader.fail("dtype", f"unknown dtype '{dtype}', allowed: {', '.join(DTYPE_BYTES)}")
    return dtype


def _read_gemm(reader: _Reader, gpu: Gpu) -> KernelSpec:
    return gemm(reader.integer("m"), reader.integer("n"), reader.integer("k"), _dtype(reader), gpu)


def _read_attention(reader: _Reader, _gpu: Gpu) -> KernelSpec:
    batch, heads = reader.integer("batch"), reader.integer("heads")
    return causal_attention(batch, heads, reader.integer("tokens"), reader.integer("head_dim"), _dtype(reader))


def _read_elementwise(reader: _Reader, _gpu: Gpu) -> KernelSpec:
    elements, inputs = reader.integer("elements"), reader.integer("inputs", 1)
    return elementwise(elements, inputs, reader.integer("flops_per_element", 1), _dtype(reader))


def _read_layer_norm(reader: _Reader, _gpu: Gpu) -> KernelSpec:
    return layer_norm(reader.integer("rows"), reader.integer("hidden"), _dtype(reader))


#: How a computation may be described -> its keys and the function that reads them.
_KERNEL_FORMS: dict[str, tuple[tuple[str, ...], Callable[[_Reader, Gpu], KernelSpec]]] = {
    "kernel": (_KERNEL_KEYS, _read_kernel),
    "gemm": (("m", "n", "k", "dtype"), _read_gemm),
    "causal_attention": (("batch", "heads", "tokens", "head_dim", "dtype"), _read_attention),
    "elementwise": (("elements", "inputs", "flops_per_element", "dtype"), _read_elementwise),
    "layer_norm": (("rows", "hidden", "dtype"), _read_layer_norm),
}


def _read_computation(path: Path, node: yaml.Node, gpu: Gpu) -> Computation:
    forms = tuple(_KERNEL_FORMS)
    reader = _Reader.open(path, node, "a computation", ("compute", "stream", "after", *forms))
    given = [form for form in forms if form in reader.entries]
    if len(given) != 1:
        _fail(path, node, f"a computation needs exactly one of {', '.join(forms)}, got {', '.join(given) or 'none'}")
    form = given[0]
    keys, read = _KERNEL_FORMS[form]
    kernel = read(_Reader.open(path, reader.entries[form], f"'{form}'", keys), gpu)
    return Computation(
        name=reader.text("compute"), kernel=kernel, stream=reader.text("stream", "compute"), after=reader.names("after")
    )


def _read_communication(path: Path, node: yaml.Node) -> Communication:
    keys = ("communicate", "collective", "dtype", "count", "op", "root", "stream", "after")
    reader = _Reader.open(path, node, "a communication", keys)
    return Communication(
        name=reader.text("communicate"),
        collective=reader.text("collective"),
        dtype=reader.text("dtype"),
        count=reader.integer("count"),
        op=reader.text("op") if "op" in reader.entries else None,
        root=reader.integer("root", 0),
        stream=reader.text("stream", "comm"),
        after=reader.names("after"),
    )


def _read_operations(path: Path, node: yaml.Node, gpu: Gpu) -> Iterator[Operation]:
    if not isinstance(node, yaml.SequenceNode):
        _fail(path, node, "'operations' must be a list")
    for item in node.value:
        keys = {key.value for key, _ in item.value} if isinstance(item, yaml.MappingNode) else set()
        if ("compute" in keys) == ("communicate" in keys):
            _fail(path, item, "an operation must have either the key 'compute' or the key 'communicate' (its name)")
        try:
            yield _read_computation(path, item, gpu) if "compute" in keys else _read_communication(path, item)
        except WorkloadError as error:
            if str(error).startswith(f"{path}:"):
                raise
            _fail(path, item, str(error))


def read_workload(path: str | os.PathLike[str]) -> Workload:
    """Read and check a workload file.

    :raises WorkloadError: with file, line, column and what is allowed; also where the file cannot be read.
    """
    path = Path(path)
    try:
        state = path.stat()
        if not stat.S_ISREG(state.st_mode) and not path.is_dir():
            raise WorkloadError(f"{path}: not a file")
        if state.st_size > MAX_FILE_BYTES:
            raise WorkloadError(f"{path}: {state.st_size} bytes is too large for a workload")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise WorkloadError(f"{path}: cannot read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise WorkloadError(f"{path}: not UTF-8 text (byte {error.start})") from error
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        raise WorkloadError(f"{where}: not YAML: {error.problem}") from error
    except yaml.YAMLError as error:
        raise WorkloadError(f"{path}: not YAML: {error}") from error
    except RecursionError as error:
        raise WorkloadError(f"{path}: nested too deeply for a workload") from error
    if root is None:
        raise WorkloadError(f"{path}:1:1: the file is empty")
    keys = ("format", "name", "description", "machine", "operations")
    reader = _Reader.open(path, root, "a workload", keys)
    if (found := reader.text("format")) != FORMAT:
        reader.fail("format", f"format is '{found}', this version reads '{FORMAT}'")
    machine = reader.text("machine")
    if machine not in MACHINES:
        reader.fail("machine", f"unknown machine '{machine}', known: {', '.join(MACHINES)}")
    name, description = reader.text("name"), reader.text("description", "")
    operations = tuple(_read_operations(path, reader.need("operations"), MACHINES[machine]))
    try:
        return Workload(name, operations, machine, description, source=str(path))
    except WorkloadError as error:
        reader.fail("operations", str(error))


def _plain(number: float) -> int | float:
    return int(number) if number == int(number) else number


def workload_to_yaml(workload: Workload) -> str:
    """The workload with every kernel spelled out; reading it back gives an equal workload."""
    operations: list[dict[str, Any]] = []
    for operation in workload.operations:
        entry: dict[str, Any]
        if isinstance(operation, Computation):
            entry = {"compute": operation.name, "stream": operation.stream}
            entry["kernel"] = {key: _plain(getattr(operation.kernel, key)) for key in _KERNEL_KEYS}
        else:
            entry = {
                "communicate": operation.name,
                "stream": operation.stream,
                "collective": operation.collective,
                "dtype": operation.dtype,
                "count": operation.count,
            }
            if operation.op is not None:
                entry["op"] = operation.op
            if operation.root:
                entry["root"] = operation.root
        if operation.after:
            entry["after"] = list(operation.after)
        operations.append(entry)
    document = {
        "format": FORMAT,
        "name": workload.name,
        "description": workload.description,
        "machine": workload.machine,
        "operations": operations,
    }
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=110)


def write_workload(path: str | os.PathLike[str], workload: Workload) -> None:
    """Write the workload's YAML, whole or not at all."""
    path = Path(path)
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
    ) as file:
        try:
            file.write(workload_to_yaml(workload))
            file.close()
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise
