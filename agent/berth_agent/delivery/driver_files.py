"""The files of NVIDIA's driver that programs in containers load: its libraries, and a few programs.

They must be of the version of the kernel's part, so they come from the host and not from an image. In the
container they are below /usr/local/nvidia, where the search paths of NVIDIA's own images lead
(`LD_LIBRARY_PATH`, `PATH`).
"""

import fnmatch
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from berth_agent import sysfs
from berth_agent.delivery.containers import Mount

IN_CONTAINER: Final = Path("/usr/local/nvidia")
LIBRARY_FOLDERS: Final = (
    "usr/lib64",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "lib64",
    "lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu",
    "usr/lib",
    "lib",
)
PROGRAM_FOLDERS: Final = ("usr/bin", "bin", "usr/local/bin")
# For computing and for video; what draws on screens is not for containers.
LIBRARIES: Final = (
    "libcuda.so*",
    "libcudadebugger.so*",
    "libnvcuvid.so*",
    "libnvidia-allocator.so*",
    "libnvidia-cfg.so*",
    "libnvidia-encode.so*",
    "libnvidia-gpucomp.so*",
    "libnvidia-ml.so*",
    "libnvidia-nvvm.so*",
    "libnvidia-nvvm70.so*",
    "libnvidia-opencl.so*",
    "libnvidia-opticalflow.so*",
    "libnvidia-pkcs11*.so*",
    "libnvidia-ptxjitcompiler.so*",
)
PROGRAMS: Final = ("nvidia-smi", "nvidia-debugdump", "nvidia-cuda-mps-control", "nvidia-cuda-mps-server")


class DriverFiles:
    """The files below the driver's root, which the host calls `on_host`, and which is seen here at `root`."""

    def __init__(self, root: Path, on_host: Path) -> None:
        self._root = root
        self._on_host = on_host

    def mounts(self) -> tuple[Mount, ...]:
        """Return the mounts that show these files in a container; none where there are none."""
        libraries = self._found(LIBRARY_FOLDERS, LIBRARIES)
        programs = self._found(PROGRAM_FOLDERS, PROGRAMS)
        return (
            *(self._mount(path, IN_CONTAINER / "lib64") for path in libraries),
            *(self._mount(path, IN_CONTAINER / "bin") for path in programs),
        )

    def _mount(self, path: Path, folder: Path) -> Mount:
        source = self._on_host / path.relative_to(self._root)
        return Mount(f"{source}", f"{folder / path.name}")

    def _found(self, folders: tuple[str, ...], patterns: tuple[str, ...]) -> Iterator[Path]:
        """Yield the files of these names, by name; of several with one name the first folder's."""
        wanted = re.compile("|".join(fnmatch.translate(pattern) for pattern in patterns))
        files: dict[str, Path] = {}
        for folder in folders:
            for path in sysfs.entries(self._root / folder):
                if wanted.fullmatch(path.name) and path.is_file():
                    files.setdefault(path.name, path)
        return (files[name] for name in sorted(files))
