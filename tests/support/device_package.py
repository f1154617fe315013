"""Packages that add types of device, as an installer would leave them, without one."""

import contextlib
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from berth_crds import device_types

NPU_X: Final = Path(__file__).resolve().parents[1] / "packages" / "npu_x"


def installed(folder: Path, project: Path = NPU_X) -> Path:
    """Return a folder for Python's search path that has the modules of a project, and its metadata."""
    found = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    for module in project.glob("*.py"):
        (folder / module.name).symlink_to(module)
    return listed(folder, found["name"], found["entry-points"]["berth.devices"], version=found["version"])


def listed(folder: Path, name: str, entry_points: Mapping[str, str], *, version: str = "1.0") -> Path:
    """Return a folder with the metadata of a package that has these entry points."""
    meta = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    meta.mkdir(parents=True)
    (meta / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = "".join(f"{key} = {value}\n" for key, value in entry_points.items())
    (meta / "entry_points.txt").write_text(f"[berth.devices]\n{lines}")
    return folder


@contextlib.contextmanager
def added(*descriptions: device_types.TypeDescription) -> Iterator[None]:
    """Serve further types meanwhile, and forget all that were added."""
    before = {*device_types.BY_NAME}
    for one in descriptions:
        device_types.add(one)
    try:
        yield
    finally:
        for name in {*device_types.BY_NAME} - before:
            device_types.remove(device_types.BY_NAME[name])
