"""Plays NVIDIA's container runtime: runc, before which NVIDIA_VISIBLE_DEVICES of each container is obeyed.

As with the real one's usual configuration, any container gets what its variable says, whether its image wrote
it, its pod or the API server: `all`, `void`, `none`, indices or uuids. Without the variable it gets nothing.
Where cards are named by mounts, as the real one may be told to take them, these count alone.
containerd starts this file for each of its commands, so it loads next to nothing.
"""

import json
import os
import stat
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

CARDS = "nvidia-cards.json"
PROGRAM = "nvidia-runtime"
VARIABLE = "NVIDIA_VISIBLE_DEVICES="
MOUNTS = "/var/run/nvidia-container-devices/"
NOTHING = ("", "void", "none")


def install(directory: Path, runc: str) -> Path:
    """Write the program, which knows no card yet, and return its path."""
    program = directory / PROGRAM
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -SE {__file__} {directory / CARDS} {runc} "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    give(directory, {}, {}, {}, major=0)
    return program


def give(
    directory: Path,
    cards: Mapping[str, int],
    driver: Mapping[str, int],
    files: Mapping[str, str],
    *,
    major: int,
) -> None:
    """Give the node cards (minors by uuid), device nodes of the driver, and files (where they are inside)."""
    listed = [{"uuid": uuid, "node": (f"/dev/nvidia{minor}", major, minor)} for uuid, minor in cards.items()]
    nodes = [(f"/dev/{name}", major, minor) for name, minor in driver.items()]
    known = {"cards": listed, "driver": nodes, "files": list(files.items())}
    (directory / CARDS).write_text(json.dumps(known))


def main(known: str, runc: str, *words: str) -> None:
    """Change what a container is made of, if one is to be made, and become runc."""
    if "create" in words and "--bundle" in words:
        path = Path(words[words.index("--bundle") + 1]) / "config.json"
        spec = json.loads(path.read_text())
        _show(spec, json.loads(Path(known).read_text()))
        path.write_text(json.dumps(spec))
    os.execv(runc, [runc, *words])  # noqa: S606  What containerd asked for is left to it.


def _show(spec: dict[str, Any], known: Mapping[str, Any]) -> None:
    """Show a container the cards that its mounts name, or else its environment."""
    words = _named_by_mounts(spec) or _named_by_environment(spec)
    shown = [
        card
        for number, card in enumerate(known["cards"])
        if not {"all", str(number), card["uuid"]}.isdisjoint(words)
    ]
    if not shown:
        return
    for path, major, minor in (*(card["node"] for card in shown), *known["driver"]):
        numbers = {"type": "c", "major": major, "minor": minor}
        spec["linux"].setdefault("devices", []).append({"path": path, "fileMode": 0o666} | numbers)
        rules = spec["linux"].setdefault("resources", {}).setdefault("devices", [])
        rules.append({"allow": True, "access": "rwm"} | numbers)
    for source, destination in known["files"]:
        mount = {"source": source, "destination": destination, "type": "bind", "options": ["ro", "rbind"]}
        spec["mounts"].append(mount)


def _named_by_mounts(spec: Mapping[str, Any]) -> list[str]:
    destinations = (mount["destination"] for mount in spec.get("mounts", ()))
    return [path.removeprefix(MOUNTS) for path in destinations if path.startswith(MOUNTS)]


def _named_by_environment(spec: Mapping[str, Any]) -> list[str]:
    env: Sequence[str] = spec["process"].get("env", ())
    said = [text.removeprefix(VARIABLE) for text in env if text.startswith(VARIABLE)]
    return said[-1].split(",") if said and said[-1] not in NOTHING else []


if __name__ == "__main__":
    main(*sys.argv[1:])
