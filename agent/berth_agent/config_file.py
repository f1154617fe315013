"""The configuration file of NVIDIA's device plugin (version v1), read as texts of the agent's flags.

Its keys are NVIDIA's, so that a file that was written for that plugin carries over. A flag wins over its
variable, that over the file, and the file over the default. What the file says of things that the agent does
not have is not an error, but it is named, so that nobody takes it for granted.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from berth_crds import flags, names, vocabulary
from berth_crds.text import quoted

VERSION: Final = "v1"
FLAGS_BY_KEY: Final = {
    "flags.migStrategy": "mig-strategy",
    "flags.failOnInitError": "fail-on-init-error",
    "flags.mpsRoot": "mps-root",
    "flags.nvidiaDriverRoot": "nvidia-driver-root",
    "flags.nvidiaDevRoot": "nvidia-dev-root",
    "flags.plugin.containerDriverRoot": "driver-root-ctr-path",
    "flags.plugin.passDeviceSpecs": "pass-device-specs",
    "flags.plugin.deviceListStrategy": "device-list-strategy",
    "flags.plugin.deviceIDStrategy": "device-id-strategy",
    "flags.plugin.cdiAnnotationPrefix": "cdi-annotation-prefix",
    "flags.plugin.sharedDevicesAllocationPolicy": "shared-devices-allocation-policy",
}
# In the order in which they count: of two the first one rules, as in NVIDIA's plugin.
SHARING_KEYS: Final = {
    "mps": vocabulary.SharingStrategy.MPS,
    "timeSlicing": vocabulary.SharingStrategy.TIME_SLICING,
}
SHARED_NAMES: Final = frozenset({names.NVIDIA_GPU, names.NVIDIA_GPU.rpartition("/")[2]})
EVERY_DEVICE: Final = "all"
SECTIONS: Final = frozenset({"flags", "flags.plugin"})
NOTHING: Final = frozenset({"", "~", "null"})
TRUTHS: Final = frozenset({"true", "false"})

Tree = Mapping[str, Any]


class Config(NamedTuple):
    """Texts by the flag that they are for, and the keys of the file that no flag is for."""

    texts: Mapping[str, flags.SourcedText] = {}
    unused: tuple[str, ...] = ()


NONE: Final = Config()


def read(path: Path) -> Config:
    """Return what a file says, or raise a usage error that names the file."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise flags.UsageError(f"The configuration file {path} cannot be read: {error}.") from error
    return parse(text, f"{path}")


def parse(text: str, place: str) -> Config:
    """Return what the text of a file says, or raise a usage error that names the place of the file."""
    try:
        return _config(_tree(text), place)
    except _WrongValue as fault:
        raise flags.UsageError(f"{place}: {fault}.") from fault
    except RecursionError as error:
        raise flags.UsageError(f"{place} is nested too deep.") from error


class _WrongValue(Exception):
    """Something in the file cannot be used; the text says what, without the file and without a full stop."""


def _tree(text: str) -> Tree:
    """Return the sections of a file, with texts as they are written: 2024-01-01 is no date, 1e3 no number."""
    # Not at the top: it takes memory that an agent without such a file has no use for.
    import yaml  # noqa: PLC0415

    class Loader(yaml.BaseLoader):
        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002
            written = [key.value for key, _ in node.value]
            if twice := [key for at, key in enumerate(written) if key in written[:at]]:
                raise _WrongValue(f"{quoted(str(twice[0]))} is written twice in one section")
            found: dict[Any, Any] = super().construct_mapping(node, deep)
            return found

    try:
        tree = yaml.load(text, Loader)  # noqa: S506  it makes texts, lists and mappings of them, and nothing else
    except yaml.YAMLError as error:
        raise _WrongValue(f"the file is neither YAML nor JSON: {' '.join(str(error).split())}") from error
    if _is_absent(tree):
        raise _WrongValue("the file is empty")
    return _section(tree, "the file")


def _is_absent(value: Any) -> bool:
    """Whether a value counts as not written: nothing, null, and an empty text."""
    return value is None or (isinstance(value, str) and value in NOTHING)


def _section(value: Any, key: str) -> Tree:
    """Return a section of the file; an empty one has no keys."""
    if _is_absent(value):
        return {}
    if not isinstance(value, dict):
        raise _WrongValue(f"{key} is {quoted(str(value))}, and not a section with keys")
    return value


def _config(tree: Tree, place: str) -> Config:
    version = VERSION if _is_absent(tree.get("version")) else tree["version"]
    if version != VERSION:
        raise _WrongValue(f"version is {quoted(str(version))}, and only {VERSION} is known")
    used, unused = {}, []
    rest = {name: value for name, value in tree.items() if name not in {"version", "sharing"}}
    for key, value in _leaves(rest):
        if key in FLAGS_BY_KEY:
            used[FLAGS_BY_KEY[key]] = _sourced(_text(value, key), place, key)
        else:
            unused.append(key)
    sharing = _section(tree.get("sharing"), "sharing")
    unused += (f"sharing.{name}" for name in sharing if name not in SHARING_KEYS)
    present = [name for name in SHARING_KEYS if not _is_absent(sharing.get(name))]
    unused += (f"sharing.{name}" for name in present[1:])
    for name in present[:1]:
        key = f"sharing.{name}"
        section = _section(sharing[name], key)
        used |= {flag: _sourced(text, place, key) for flag, text in _sharing_texts(section, name)}
        unused += _unused_of_sharing(section, key)
    return Config(used, tuple(unused))


def _leaves(tree: Tree, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each value that is no section, under its whole key; what is absent is left out."""
    for name, value in tree.items():
        key = f"{prefix}{name}"
        if key in SECTIONS or (isinstance(value, dict) and key not in FLAGS_BY_KEY):
            yield from _leaves(_section(value, key), f"{key}.")
        elif not _is_absent(value):
            yield key, value


def _text(value: Any, key: str) -> str:
    """Return a value as one would write it behind its flag."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ",".join(value)
    raise _WrongValue(f"{key} is {quoted(str(value))}, and neither a text nor a list of texts")


def _sourced(text: str, place: str, key: str) -> flags.SourcedText:
    return flags.SourcedText(text, f"{place}: {key}")


# ---------------------------------------------------------------- how cards are shared


def _sharing_texts(section: Tree, name: str) -> Iterator[tuple[str, str]]:
    """Yield the flags of a section on sharing, with their texts."""
    key, strategy = f"sharing.{name}", SHARING_KEYS[name]
    yield "sharing", f"{strategy}:{_replicas(section.get('resources'), f'{key}.resources')}"
    yield "rename-shared", _truth(section, "renameByDefault", key, usual=False)
    usual = strategy == vocabulary.SharingStrategy.MPS
    yield "fail-requests-greater-than-one", _truth(section, "failRequestsGreaterThanOne", key, usual=usual)


def _truth(section: Tree, name: str, key: str, *, usual: bool) -> str:
    value = str(usual).lower() if _is_absent(section.get(name)) else section[name]
    if not isinstance(value, str) or value.lower() not in TRUTHS:
        raise _WrongValue(f"{key}.{name} is {quoted(str(value))}, and neither true nor false")
    return value


def _replicas(resources: Any, key: str) -> int:
    """Return how many replicas each card has by the one entry on nvidia.com/gpu."""
    if not isinstance(resources, list) or not resources:
        raise _WrongValue(f"{key} lists no resource")
    entries = [_section(entry, f"{key}[{at}]") for at, entry in enumerate(resources)]
    for at, entry in enumerate(entries):
        if f"{entry.get('name')}" not in SHARED_NAMES:
            raise _WrongValue(
                f"{key}[{at}].name is {quoted(str(entry.get('name')))}: only {names.NVIDIA_GPU} is shared,"
                " as MIG instances are given out whole"
            )
    if len(entries) > 1:
        raise _WrongValue(f"{key} names {names.NVIDIA_GPU} twice")
    replicas = entries[0].get("replicas")
    if not isinstance(replicas, str) or not replicas.isdecimal():
        raise _WrongValue(f"{key}[0].replicas is {quoted(str(replicas))}, and not a number")
    return int(replicas)


def _unused_of_sharing(section: Tree, key: str) -> Iterator[str]:
    """Yield what is not obeyed, as in NVIDIA's plugin: names of one's own, and sharing of some cards only."""
    known = {"resources", "renameByDefault", "failRequestsGreaterThanOne"}
    yield from (f"{key}.{name}" for name in section if name not in known)
    for at, entry in enumerate(section["resources"]):
        for name, value in entry.items():
            if name not in {"name", "replicas"} and not (name == "devices" and value == EVERY_DEVICE):
                yield f"{key}.resources[{at}].{name}"
