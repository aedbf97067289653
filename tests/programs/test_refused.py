# SPDX-License-Identifier: Apache-2.0
"""Programs that cannot work are told why, in one line that names what they hold."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from launch import run
from programs.conftest import Compile, Published

STATIC_RUNTIMES = [Path("/usr/local/cuda", folder, "libcudart_static.a") for folder in ("lib64", "lib")]

ASKS = """
#include <cuda_runtime.h>
#include <cstdio>
int main() {
  int count = -1;
  cudaError_t error = cudaSuccess;
  for (int i = 0; i < 3; ++i) error = cudaGetDeviceCount(&count);
  std::printf("%s\\n", cudaGetErrorName(error));
}
"""

KERNELS = """
#include <cstdio>
__device__ int counter;
namespace mine { template <typename T> __global__ void twice(T* x) { x[threadIdx.x] *= 2; } }
int main() {
  float* x = nullptr;
  const float one = 1;
  std::printf("%s\\n", cudaGetErrorName(cudaMalloc(reinterpret_cast<void**>(&x), sizeof one)));
  std::printf("%s\\n", cudaGetErrorName(cudaMemcpy(x, &one, sizeof one, cudaMemcpyHostToDevice)));
  mine::twice<<<1, 1>>>(x);
  std::printf("%s\\n", cudaGetErrorName(cudaGetLastError()));
  int value = 7;
  std::printf("%s\\n", cudaGetErrorName(cudaMemcpyToSymbol(counter, &value, sizeof value)));
}
"""


def lines(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in done.stderr.splitlines() if line.startswith("hostcuda: ")]


def test_static_runtime(compiled: Compile, published: Published, tmp_path: Path) -> None:
    found = next((path for path in STATIC_RUNTIMES if path.exists()), None)
    if found is None:
        pytest.skip("no libcudart_static.a on this machine (CUDA's toolkit has it)")
    source = tmp_path / "asks.cc"
    source.write_text(ASKS)
    libraries = [str(found), "-lpthread", "-ldl", "-lrt"]
    program = compiled("asks-static", [source], [f"-I{published.cuda_include}", *libraries])
    done = run([str(program)], published.environment())
    assert done.stdout == "cudaErrorCallRequiresNewerDriver\n"
    (line,) = lines(done)
    assert f"{program} holds NVIDIA's own CUDA runtime" in line
    assert "-lcudart" in line


def test_kernels_of_nvcc(published: Published, tmp_path: Path) -> None:
    nvcc = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
    if nvcc is None:
        pytest.skip("no nvcc on this machine")
    source, program = tmp_path / "kernels.cu", tmp_path / "kernels"
    source.write_text(KERNELS)
    command = [nvcc, "-arch=sm_90", "-cudart", "shared", str(source), "-o", str(program)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if built.returncode:
        pytest.skip(f"nvcc does not compile here: {built.stderr[-300:]}")
    done = run([str(program)], published.environment())
    failures = ["cudaErrorInvalidDeviceFunction", "cudaErrorInvalidSymbol"]
    assert done.stdout.split() == ["cudaSuccess", "cudaSuccess", *failures]
    assert len(lines(done)) == 2
    assert re.search(r"kernel (void )?mine::twice<float>\(.*\) is GPU code compiled by nvcc", lines(done)[0])
    assert "cudaMemcpyToSymbol: counter is a variable of GPU code" in lines(done)[1]


def test_kernels_of_gpp(published: Published, tmp_path: Path) -> None:
    """g++ names the file that it cannot take."""
    source = tmp_path / "kernels.cu"
    source.write_text(KERNELS)
    command = ["g++", *published.compile_options(), str(source), *published.link_options(), "-o", str(tmp_path / "no")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "kernels.cu" in done.stderr
