"""Packages that add types of device, as an installer would leave them, without one."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

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
