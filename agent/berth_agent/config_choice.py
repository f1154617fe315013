"""Which configuration file a node has: one of a folder, by the label of NVIDIA's plugin on the Node. Pure.

A folder has one file for each kind of node, such as a ConfigMap that is mounted there. A Node without the
label has the default, or else what the fallbacks find.
"""

import dataclasses
from collections.abc import Collection
from pathlib import Path
from typing import Final

from berth_crds import flags
from berth_crds.text import quoted

LABEL: Final = "nvidia.com/device-plugin.config"
NAMED, SINGLE, EMPTY = "named", "single", "empty"
FALLBACKS: Final = (NAMED, SINGLE, EMPTY)
USUAL_FALLBACKS: Final = (NAMED, SINGLE)
DEFAULT_NAME: Final = "default"


@dataclasses.dataclass(frozen=True, slots=True)
class ConfigFolder:
    """A folder of configuration files, and which of them a Node has whose label names none."""

    path: Path
    default: str = ""
    fallbacks: tuple[str, ...] = USUAL_FALLBACKS


def files(path: Path) -> Collection[str]:
    """Return the names of the files in a folder; a mounted ConfigMap has others beside them, with a dot."""
    try:
        return sorted(one.name for one in path.iterdir() if one.is_file() and not one.name.startswith("."))
    except OSError as error:
        raise flags.UsageError(f"The folder {path} cannot be read: {error}.") from error


def chosen(label: str, names: Collection[str], folder: ConfigFolder) -> str:
    """Return the name of the node's file, empty for none, or raise a usage error."""
    if wanted := label or folder.default:
        if wanted in names:
            return wanted
        source = f"label {LABEL} of the node" if label else "flag --default-config"
        raise flags.UsageError(
            f"The {source} names the configuration {quoted(wanted)}, which does not exist;"
            f" {folder.path} has {_listed(names)}."
        )
    for fallback in folder.fallbacks:
        if fallback == EMPTY:
            return ""
        if fallback == NAMED and DEFAULT_NAME in names:
            return DEFAULT_NAME
        if fallback == SINGLE and len(names) == 1:
            return next(iter(names))
    raise flags.UsageError(
        f"The node has no label {LABEL}, --default-config names none, and of {folder.path}, which has"
        f" {_listed(names)}, {' and '.join(folder.fallbacks) or 'no fallback'} finds none."
    )


def _listed(names: Collection[str]) -> str:
    return ", ".join(names) if names else "none"
