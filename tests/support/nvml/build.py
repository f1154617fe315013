"""Builds the mock of NVML, once for each state of its sources, with the C compiler of the machine."""

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from support import house

HERE: Final = Path(__file__).parent
SOURCES: Final = (HERE / "state.c", HERE / "nvml.c")
NAME: Final = "libnvidia-ml.so.1"
FLAGS: Final = (
    *("-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread"),
    *("-shared", "-fPIC", f"-Wl,-soname,{NAME}"),
)


def compiler() -> str | None:
    """Find the compiler, if the machine has one."""
    return shutil.which("gcc")


def library() -> Path:
    """Return the mock, built if it is not there yet; its folder can stand in LD_LIBRARY_PATH."""
    path = house.ROOT / "build" / "nvml" / _digest() / NAME
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        _compile(path)
    return path


def load() -> ctypes.CDLL:
    """Load the mock into this process; whoever asks for the library by its name then gets it."""
    # The loader knows a library that is loaded by its soname, so that the bindings, which ask
    # for nothing but that, stay as they are.
    return ctypes.CDLL(str(library()))


def _digest() -> str:
    contents = [path.read_bytes() for path in sorted(HERE.glob("*.[ch]"))]
    return hashlib.sha256(b"\0".join((*contents, " ".join(FLAGS).encode()))).hexdigest()[:16]


def _compile(path: Path) -> None:
    gcc = compiler()
    assert gcc, "there is no gcc"
    # Several test processes may build at once; a rename shows each of them a whole library.
    handle, half = tempfile.mkstemp(dir=path.parent)
    os.close(handle)
    subprocess.run([gcc, *FLAGS, "-o", half, *map(str, SOURCES)], check=True)
    Path(half).rename(path)
