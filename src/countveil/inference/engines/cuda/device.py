"""The device: what is there, arrays on it, kernels for it, and the one product that CuPy makes.

In numba's CUDA simulator (NUMBA_ENABLE_CUDASIM=1), where there is no GPU, arrays are numpy's and numpy makes the
product: everything else of this engine is the same source.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from countveil.runtime.compiled import cache_folder, numba
from countveil.runtime.own_settings import import_library

#: Any of numba's two: that of the package numba-cuda takes the place of numba's own.
cuda: Any = import_library("numba.cuda")
#: Whether kernels run in the simulator, one Python thread for every thread of a device.
SIMULATED = bool(numba.config.ENABLE_CUDASIM)
#: Tensor cores that multiply halves came with 7.0; 64-bit integer atomics are older.
LEAST_CAPABILITY = (7, 0)
_THREADS = 32 if SIMULATED else 256
# What CUDA answers where there is no card, or a driver that is too old: asking again is no use.
_FINAL = (35, 100)
#: Where starters of MPI jobs say which of a machine's ranks this is.
LOCAL_RANKS = ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID")
_HINT = "pip install 'countveil[gpu]'"


class Device(NamedTuple):
    """A GPU that can be used."""

    name: str
    capability: tuple[int, int]
    free: int  # bytes
    total: int


def find_device(tries: int = 5) -> Device | str:
    """The GPU, or why there is none that can be used.

    Where many processes begin at once the driver may fail for a moment: it is asked again, for three seconds or so.
    """
    if SIMULATED:
        return Device("numba's CUDA simulator", LEAST_CAPABILITY, 2**32, 2**32)
    try:
        cupy = importlib.import_module("cupy")
    except ImportError as error:
        return f"CuPy cannot be imported ({error}): {_HINT}"
    reason = ""
    for turn in range(tries):
        if turn:
            time.sleep(0.2 * 2 ** (turn - 1))
        try:
            return _device(cupy)
        except Exception as error:  # drivers fail in many ways, and none of them may keep a CPU from working
            first = next(iter(str(error).splitlines()), "")
            reason = f"the CUDA driver answers {type(error).__name__}: {first}"
            if getattr(error, "status", None) in _FINAL:
                return reason
    return f"{reason} ({tries} times; free memory and the number of processes on the GPU may tell why)"


def own_number(n_devices: int, environment: Mapping[str, str] = os.environ) -> int:
    """Which of a machine's devices a process takes: ranks of a job that share a machine take different ones.

    >>> own_number(4, {"SLURM_LOCALID": "5"}), own_number(4, {})
    (1, 0)
    """
    for name in LOCAL_RANKS:
        if environment.get(name, "").isdecimal():
            return int(environment[name]) % max(n_devices, 1)
    return 0


def _device(cupy: Any) -> Device | str:
    """What there is, asked once. CuPy comes first: numba takes a driver that failed once for none, for ever."""
    number = own_number(cupy.cuda.runtime.getDeviceCount())
    if number:
        cupy.cuda.Device(number).use()
        cuda.select_device(number)
    free, total = cupy.cuda.runtime.memGetInfo()
    if not cuda.is_available():
        return "numba sees no CUDA device (no driver, or no card)"
    found = cuda.get_current_device()
    capability = tuple(found.compute_capability)
    name = found.name.decode() if isinstance(found.name, bytes) else str(found.name)
    if capability < LEAST_CAPABILITY:
        wanted = ".".join(map(str, LEAST_CAPABILITY))
        return f"{name} has compute capability {'.'.join(map(str, capability))}, expected {wanted} or newer"
    return Device(name, capability, int(free), int(total))


def kernel(
    function: Callable[..., Any] | None = None, *, registers: int | None = None, kind: str = ""
) -> Any:
    """A CUDA kernel, compiled on its first launch; its machine code is kept beside that of the CPU.

    With at most so many registers for each thread, more of them run at a time. Kernels that are made of one source
    for several kinds of work say which: their machine code is kept apart by it. In one index two processes that
    compile at the same time could each leave the other's code under its own name.
    """
    if function is None:
        return partial(kernel, registers=registers, kind=kind)
    if kind:
        function.__name__ += f"_{kind}"
        function.__qualname__ += f"_{kind}"
    try:
        config: Any = importlib.import_module(
            "numba.cuda.core.config"
        )  # numba-cuda has a configuration of its own
    except ImportError:
        config = numba.config
    before = config.CACHE_DIR
    config.CACHE_DIR = str(cache_folder())
    try:
        if SIMULATED:
            return cuda.jit(function)
        return cuda.jit(function, cache=True, max_registers=registers)
    finally:
        config.CACHE_DIR = before


def launch(function: Any, n_threads: int, *arguments: Any, threads: int = _THREADS) -> None:
    """Run a kernel with at least so many threads."""
    launch_blocks(function, math.ceil(n_threads / threads), threads, *arguments)


def launch_blocks(function: Any, n_blocks: int, threads: int, *arguments: Any) -> None:
    """Run a kernel with so many blocks."""
    if n_blocks > 0:
        function[n_blocks, threads, _stream()[1]](*arguments)


#: The queue that launches go to.
_queue = 0


@contextlib.contextmanager
def queue(number: int) -> Iterator[None]:
    """Launches within go to a queue of their own: work of several goes side by side. Copies wait for all."""
    global _queue
    before, _queue = _queue, number
    try:
        yield
    finally:
        _queue = before


def _stream() -> tuple[Any, Any]:
    """The present queue, as CuPy's and as numba's."""
    return _stream_of(_queue)


@cache
def _stream_of(number: int) -> tuple[Any, Any]:
    if SIMULATED:
        return None, 0
    cupy: Any = importlib.import_module("cupy")
    stream = cupy.cuda.Stream()  # copies, which have the default queue, wait for it and it for them
    return stream, cuda.external_stream(stream.ptr)


class Recorded:
    """Work that is the same every time: recorded as CUDA graphs, which are then handed to the device as wholes.

    Its thirty launches, one after the other, would take the processor longer than the device. Products that CuPy
    makes cannot be recorded, and stand between graphs. The first time everything is done one by one: kernels are
    compiled then.
    """

    #: The one that is being recorded.
    current: Recorded | None = None

    def __init__(self, work: Callable[[], None]) -> None:
        self._work, self._times = work, 0
        self._steps: list[Callable[[], None]] = []

    def __call__(self) -> None:
        """Once more."""
        self._times += 1
        if SIMULATED or self._times == 1:
            self._work()
            return
        if self._times == 2:
            self._record()
        for step in self._steps:
            step()

    def _record(self) -> None:
        stream, _ = _stream()
        Recorded.current = self
        with stream:
            stream.begin_capture()
            try:
                self._work()
            finally:
                Recorded.current = None
                self._end(stream)

    def _end(self, stream: Any) -> None:
        graph = stream.end_capture()
        self._steps.append(lambda: graph.launch(stream))

    def apart(self, step: Callable[[], None]) -> None:
        """A step that cannot be recorded."""
        stream, _ = _stream()
        self._end(stream)
        self._steps.append(step)
        stream.begin_capture()


def empty(shape: int | tuple[int, ...], kind: Any) -> Any:
    """An array on the device, not filled."""
    return np.empty(shape, kind) if SIMULATED else cuda.device_array(shape, kind)


def to_device(array: np.ndarray) -> Any:
    """A copy on the device."""
    array = np.ascontiguousarray(array)
    return array.copy() if SIMULATED else cuda.to_device(array)


def to_host(array: Any) -> np.ndarray:
    """A copy of an array of the device."""
    return array.copy() if SIMULATED else array.copy_to_host()


def fill_from(array: Any, values: np.ndarray) -> None:
    """Overwrite an array of the device."""
    if SIMULATED:
        array[...] = values
    else:
        array.copy_to_device(np.ascontiguousarray(values, dtype=array.dtype).reshape(array.shape))


def synchronize() -> None:
    """Wait until the device has done everything."""
    cuda.synchronize()


def multiplier(left: Any, right: Any, out: Any) -> Callable[[int, int], None]:
    """A function (start, stop) that writes rows start..stop of left @ right.T to the first rows of ``out``.

    Arrays hold the bits of halves, as uint16. Sums are made in single precision and rounded to halves at the end.
    """
    if SIMULATED:

        def by_numpy(start: int, stop: int) -> None:
            rows = left[start:stop].view(np.float16).astype(np.float32)
            with np.errstate(over="ignore"):
                found = (rows @ right.view(np.float16).astype(np.float32).T).astype(np.float16)
            out[: stop - start] = found.view(np.uint16)

        return by_numpy
    cupy: Any = importlib.import_module("cupy")
    # The same memory, as CuPy's arrays.
    rows_, columns, product = (cupy.asarray(array).view(cupy.float16) for array in (left, right, out))
    turned = columns.T

    def by_cupy(start: int, stop: int) -> None:
        def product_of_rows() -> None:
            with _stream()[0]:
                cupy.matmul(some, turned, out=out_rows)

        some, out_rows = rows_[start:stop], product[: stop - start]
        if Recorded.current is not None:
            Recorded.current.apart(product_of_rows)
        else:
            product_of_rows()

    return by_cupy
