"""Pods written for other projects ask for the very same as their spelling in Berth's own keys."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from berth_crds import aliases, names
from berth_operator.translate import converters, device_requests, raw
from support import builders
from translate import pod_requests

GOLDEN: Final = Path(__file__).resolve().parents[1] / "golden" / "aliases"
PAIRS: Final = {
    f"{path.stem}: {pair['name']}": pair
    for path in sorted(GOLDEN.glob("*.yaml"))
    for pair in yaml.safe_load(path.read_text())
}


def pod(written: dict[str, Any]) -> raw.Pod:
    """Make a pod of the short form in the golden files."""
    main = builders.container("main", resources={"limits": written.get("limits", {})})
    return builders.pod(
        annotations=written.get("annotations", {}),
        labels=written.get("labels", {}),
        initContainers=written.get("initContainers", []),
        containers=written.get("containers", [main]),
    )


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS.keys())
def test_pair(pair: dict[str, Any]) -> None:
    """The two spellings give equal Requests, and neither is refused."""
    theirs, ours = pod_requests.request(pod(pair["theirs"])), pod_requests.request(pod(pair["ours"]))

    assert theirs == ours


def keys(written: dict[str, Any]) -> Iterator[str]:
    """Return every key by which a pod of the golden files asks."""
    yield from written.get("annotations", {})
    yield from written.get("labels", {})
    yield from written.get("limits", {})
    for container in (*written.get("containers", ()), *written.get("initContainers", ())):
        yield from container.get("resources", {}).get("limits", {})


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS.keys())
def test_ours_is_ours(pair: dict[str, Any]) -> None:
    """The second pod of a pair uses no key of another project."""
    foreign = [
        key for key in keys(pair["ours"]) if key.partition("/")[0] not in {names.GROUP, "nvidia.com", "cpu"}
    ]

    assert foreign == []
    assert not {*keys(pair["ours"])} & {*aliases.RESOURCES, *(row.key for row in aliases.OPTIONS)}


def test_every_alias_has_a_pair() -> None:
    """No row of the tables of aliases is there without an example of what it means."""
    shown = {key for pair in PAIRS.values() for key in keys(pair["theirs"])}
    refused = {"genius/gpu-memory-total"}

    every = {row.key for row in (*aliases.AMOUNTS, *aliases.OPTIONS)}
    every |= {aliases.KAI_CONTAINER, *aliases.KUBEGPU_RECORDS}
    assert every - shown == refused


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS.keys())
def test_bound_pod_has_as_much(pair: dict[str, Any]) -> None:
    """What a bound pod withholds does not depend on the words in which it asked."""
    theirs, ours = (
        device_requests.amounts_request(pod(pair["theirs"])),
        device_requests.amounts_request(pod(pair["ours"])),
    )

    assert theirs == ours


def test_every_converter_is_there() -> None:
    """The table of wishes names no function that translation does not have, and leaves none unused."""
    assert {row.converter for row in aliases.OPTIONS} == set(converters.CONVERTERS)
