"""A program that computes on the first card of this machine, or fails there, without NVIDIA's toolkit.

    python -m support.cuda_program compute [BYTES]   holds so much memory and computes until its input ends
    python -m support.cuda_program fail              writes where it has no memory, as a faulty kernel does

It says `ready` once it computes.
"""

import ctypes
import select
import sys
from typing import Final

MEMORY: Final = 1 << 30
TURNS: Final = 1 << 24  # Of one launch: some hundredths of a second.
KERNEL: Final = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry turn(.param .u64 place, .param .u64 turns)
{
    .reg .pred more;
    .reg .u64 at, left;
    ld.param.u64 at, [place];
    ld.param.u64 left, [turns];
again:
    sub.u64 left, left, 1;
    st.volatile.global.u64 [at], left;
    setp.gt.u64 more, left, 0;
    @more bra again;
    ret;
}
"""


class Card:
    """The first card, by the driver's own library."""

    def __init__(self) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")
        self._call("cuInit", 0)
        self._call("cuCtxCreate_v2", ctypes.byref(ctypes.c_void_p()), 0, 0)
        module, self._kernel = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cuModuleLoadData", ctypes.byref(module), KERNEL)
        self._call("cuModuleGetFunction", ctypes.byref(self._kernel), module, b"turn")

    def allocate(self, size: int) -> int:
        """Return where so much memory begins."""
        place = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(place), ctypes.c_size_t(size))
        return place.value

    def compute(self, place: int, turns: int) -> None:
        """Write so often to a place, and wait for that."""
        values = ctypes.c_uint64(place), ctypes.c_uint64(turns)
        arguments = (ctypes.c_void_p * 2)(*(ctypes.addressof(value) for value in values))
        self._call("cuLaunchKernel", self._kernel, *(1,) * 6, 0, None, arguments, None)
        self._call("cuCtxSynchronize")

    def _call(self, name: str, *arguments: object) -> None:
        if code := getattr(self._cuda, name)(*arguments):
            raise SystemExit(f"{name} failed with {code}")


def main() -> None:
    """Run as the first argument says."""
    card = Card()
    if sys.argv[1] == "fail":
        card.compute(1 << 44, 1)
    place = card.allocate(int(sys.argv[2]) if sys.argv[2:] else MEMORY)
    card.compute(place, 1)
    print("ready", flush=True)
    while not select.select([sys.stdin], [], [], 0)[0]:
        card.compute(place, TURNS)


if __name__ == "__main__":
    main()
