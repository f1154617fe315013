"""The annotation protocol: exact both ways, one text for one allocation, and never an exception."""

import json
import math
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_crds import allocation, card_part, names, schema_limits
from berth_crds.allocation import UnreadableReason

UUID = "GPU-6cf3bbc0-7726-46d2-816f-525511292b61"
OTHER = "GPU-0a8d3c52-95b1-4c0e-a0d2-6f3d9c1a7e44"
OF_THE_CONTRACT = (
    '{"v":1,"node":"gpu-node-1","containers":{"main":{"gpu":'
    '[{"uuid":"GPU-6cf3bbc0-7726-46d2-816f-525511292b61","minor":0,"core":100,"memory":85198045184}]}}}'
)
PRINTABLE_ASCII = set(map(chr, range(32, 127)))


def share(uuid: str = UUID, **fields: object) -> allocation.Share:
    """Make a share of a whole card; the fields differ as told."""
    whole = {"minor": 0, "core": 100, "memory": 85198045184}
    return allocation.Share(uuid, **(whole | fields))  # type: ignore[arg-type]


LABELS = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True).filter(str.isascii)
SHARES = st.builds(
    allocation.Share,
    uuid=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,40}", fullmatch=True).filter(str.isascii),
    minor=st.integers(0, schema_limits.LARGEST_MINOR),
    core=st.integers(0, card_part.WHOLE),
    memory=st.integers(0, schema_limits.LARGEST_MEMORY),
    profile=st.sampled_from(["", "1g.10gb", "1c.3g.40gb", "1g.10gb+me"]),
    vf=st.sampled_from(["", "0000:1f:00.2", "0000:1f:00.3"]),
    limit=st.sampled_from([0, 0, 100, 150, 1000]),
)
LISTS = st.lists(SHARES, min_size=1, max_size=4, unique_by=lambda held: (held.uuid, held.vf))
ALLOCATIONS = st.builds(
    allocation.of,
    LABELS,
    st.dictionaries(LABELS, st.dictionaries(LABELS, LISTS, min_size=1, max_size=3), min_size=1, max_size=3),
)


@pytest.mark.parametrize(
    ("held", "text"),
    [
        pytest.param(
            allocation.of("gpu-node-1", {"main": {"gpu": [share()]}}),
            OF_THE_CONTRACT,
            id="the contract's example",
        ),
        pytest.param(
            allocation.of("n", {"main": {"gpu": [share("GPU-1", core=0, memory=0)]}}),
            '{"v":1,"node":"n","containers":{"main":{"gpu":[{"uuid":"GPU-1","minor":0,"core":0,"memory":0}]}}}',
            id="zeros are written",
        ),
        pytest.param(
            allocation.of(
                "n", {"b": {"gpu": [share("GPU-1", minor=1, core=14, memory=7, profile="1g.10gb")]}}
            ),
            '{"v":1,"node":"n","containers":{"b":{"gpu":'
            '[{"uuid":"GPU-1","minor":1,"core":14,"memory":7,"profile":"1g.10gb"}]}}}',
            id="a MIG instance",
        ),
        pytest.param(
            allocation.of("n", {"a": {"rdma": [share("rdma-0000:1f:00.0", memory=0, vf="0000:1f:00.2")]}}),
            '{"v":1,"node":"n","containers":{"a":{"rdma":'
            '[{"uuid":"rdma-0000:1f:00.0","minor":0,"core":100,"memory":0,"vf":"0000:1f:00.2"}]}}}',
            id="a virtual function",
        ),
        pytest.param(
            allocation.of("n", {"a": {"gpu": [share("GPU-1", core=60, memory=7, limit=150)]}}),
            '{"v":1,"node":"n","containers":{"a":{"gpu":'
            '[{"uuid":"GPU-1","minor":0,"core":60,"memory":7,"limit":150}]}}}',
            id="a card whose core is oversold",
        ),
        pytest.param(
            allocation.of("n", {"z": {"gpu": [share("B", memory=1), share("A", memory=1)]}, "a": {}}),
            '{"v":1,"node":"n","containers":{"z":{"gpu":'
            '[{"uuid":"B","minor":0,"core":100,"memory":1},{"uuid":"A","minor":0,"core":100,"memory":1}]},"a":{}}}',
            id="order is kept",
        ),
    ],
)
def test_the_text_of_version_1_stays(held: allocation.Allocation, text: str) -> None:
    """Records on running pods stay readable: the text of version 1 never changes."""
    assert allocation.encode(held) == text
    assert allocation.decode(text) == held


@hypothesis.given(held=ALLOCATIONS, indent=st.sampled_from([None, 0, 2]))
def test_what_is_written_is_read_back_exactly(held: allocation.Allocation, indent: int | None) -> None:
    """However a record was laid out, nothing is lost, and writing it again gives the one canonical text."""
    text = allocation.encode(held)
    loose = json.dumps(json.loads(text) | {"later": [1, {"x": None}]}, indent=indent)

    read = allocation.decode(loose)

    assert read == held
    assert allocation.encode(read) == text


@hypothesis.given(text=st.text(st.characters()) | st.text('{}[]":,0123456789-eE.\\untrfalsNI \ud800'))
def test_garbage_is_unreadable_and_never_raises(text: str) -> None:
    """Whatever stands in the annotation, reading it gives an answer."""
    read = allocation.decode(text)

    assert isinstance(read, allocation.Unreadable)
    assert set(read.detail) <= PRINTABLE_ASCII


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@hypothesis.given(held=ALLOCATIONS, value=JSON, data=st.data())
def test_a_field_replaced_by_anything_never_raises(
    held: allocation.Allocation, value: object, data: st.DataObject
) -> None:
    """A record damaged in one place is either still a good one or is reported as unreadable."""
    record: Any = json.loads(allocation.encode(held))
    target, deeper = record, record
    while isinstance(deeper, dict | list) and deeper and (deeper is record or data.draw(st.booleans())):
        target = deeper
        key = data.draw(st.sampled_from(sorted(target) if isinstance(target, dict) else range(len(target))))
        deeper = target[key]
    target[key] = value

    read = allocation.decode(json.dumps(record))

    assert isinstance(read, allocation.Unreadable) or allocation.decode(allocation.encode(read)) == read


@hypothesis.given(
    held=ALLOCATIONS,
    cut=st.floats(0, 1, exclude_max=True),
    other=st.sampled_from(["", '"', "\\", "\x00", "9", "\ud800", "}"]),
)
def test_a_text_cut_or_changed_anywhere_never_raises(
    held: allocation.Allocation, cut: float, other: str
) -> None:
    """A record damaged by a character is either still a good one or is reported as unreadable."""
    text = allocation.encode(held)
    at = int(cut * len(text))

    read = allocation.decode(text[:at] + other + text[at + 1 :])

    assert isinstance(read, allocation.Allocation | allocation.Unreadable)
    assert isinstance(allocation.decode(text[:at]), allocation.Unreadable)


CARD = {"uuid": UUID, "minor": 0, "core": 1, "memory": 1}


def of_card(**fields: object) -> str:
    """Write the contract's example with some fields of its card replaced; None leaves one out."""
    card = CARD | {"core": 100, "memory": 85198045184} | fields
    held = {name: value for name, value in card.items() if value is not None}
    return of_record(containers={"main": {"gpu": [held]}})


def of_record(**fields: object) -> str:
    """Write the contract's example with some of its own fields replaced."""
    return json.dumps(json.loads(OF_THE_CONTRACT) | fields)


FAULTS = [
    ("nothing at all", "", UnreadableReason.NOT_JSON, "Expecting value"),
    ("nested too deep", "[" * 100_000, UnreadableReason.NOT_JSON, "too deep"),
    (
        "deep in a field that is ignored",
        f'{{"x":{"[" * 99_999}',
        UnreadableReason.NOT_JSON,
        "too deep",
    ),
    ("a number of thousands of digits", "9" * 5000, UnreadableReason.NOT_JSON, "digits"),
    ("not a number", of_card(memory=math.nan), UnreadableReason.NOT_JSON, "NaN"),
    ("infinity", of_card(memory=-math.inf), UnreadableReason.NOT_JSON, "-Infinity"),
    ("a list at the top", "[]", UnreadableReason.WRONG_SHAPE, "the record: expected an object"),
    (
        "no version",
        '{"node":"n"}',
        UnreadableReason.WRONG_SHAPE,
        "v: expected a whole number, found nothing",
    ),
    (
        "true as version",
        of_record(v=True),
        UnreadableReason.WRONG_SHAPE,
        "v: expected a whole number, found True",
    ),
    ("a float as version", of_record(v=1.0), UnreadableReason.WRONG_SHAPE, "v: "),
    (
        "a later version",
        of_record(v=2),
        UnreadableReason.UNKNOWN_VERSION,
        "reads version 1, found 2",
    ),
    ("no node", of_record(node=None), UnreadableReason.WRONG_SHAPE, "node: "),
    ("an empty node", of_record(node=""), UnreadableReason.WRONG_SHAPE, "node: "),
    (
        "containers as a list",
        of_record(containers=[]),
        UnreadableReason.WRONG_SHAPE,
        "containers: expected an object",
    ),
    ("no containers", of_record(containers={}), UnreadableReason.EMPTY, "no device"),
    (
        "a container without devices",
        of_record(containers={"a": {"gpu": []}}),
        UnreadableReason.EMPTY,
        "no device",
    ),
    (
        "a container with an invalid name",
        of_record(containers={"A b": {}}),
        UnreadableReason.WRONG_SHAPE,
        "containers: ",
    ),
    (
        "a type with an invalid name",
        of_record(containers={"a": {"": []}}),
        UnreadableReason.WRONG_SHAPE,
        "containers.a: ",
    ),
    (
        "devices as an object",
        of_record(containers={"a": {"gpu": {}}}),
        UnreadableReason.WRONG_SHAPE,
        "containers.a.gpu: expected a list, found an object",
    ),
    ("no uuid", of_card(uuid=None), UnreadableReason.WRONG_SHAPE, "gpu[0].uuid: "),
    (
        "a comma in a uuid",
        of_card(uuid="GPU-1,GPU-2"),
        UnreadableReason.WRONG_SHAPE,
        "gpu[0].uuid: ",
    ),
    (
        "a newline after a uuid",
        of_card(uuid="GPU-1\n"),
        UnreadableReason.WRONG_SHAPE,
        "gpu[0].uuid: ",
    ),
    (
        "a lone surrogate in a uuid",
        of_card(uuid="\ud800"),
        UnreadableReason.WRONG_SHAPE,
        "gpu[0].uuid: ",
    ),
    (
        "no minor",
        of_card(minor=None),
        UnreadableReason.WRONG_SHAPE,
        "gpu[0].minor: expected a whole number, found nothing",
    ),
    ("true as minor", of_card(minor=True), UnreadableReason.WRONG_SHAPE, "gpu[0].minor: "),
    ("a string as minor", of_card(minor="0"), UnreadableReason.WRONG_SHAPE, "gpu[0].minor: "),
    (
        "a negative minor",
        of_card(minor=-1),
        UnreadableReason.OUT_OF_RANGE,
        "gpu[0].minor: expected 0 to",
    ),
    ("a huge minor", of_card(minor=10**30), UnreadableReason.OUT_OF_RANGE, "gpu[0].minor: "),
    (
        "more than a whole card",
        of_card(core=101),
        UnreadableReason.OUT_OF_RANGE,
        "gpu[0].core: expected 0 to 100",
    ),
    ("a fraction of a percent", of_card(core=0.5), UnreadableReason.WRONG_SHAPE, "gpu[0].core: "),
    (
        "more bytes than there can be",
        of_card(memory=2**63),
        UnreadableReason.OUT_OF_RANGE,
        "gpu[0].memory: ",
    ),
    ("a number as profile", of_card(profile=1), UnreadableReason.WRONG_SHAPE, "gpu[0].profile: "),
    (
        "a device named twice",
        of_record(containers={"a": {"gpu": [CARD, CARD]}}),
        UnreadableReason.DUPLICATE_DEVICE,
        "containers.a.gpu: ",
    ),
    (
        "a container named twice",
        OF_THE_CONTRACT.replace('"main":{', '"main":{},"main":{'),
        UnreadableReason.DUPLICATE_KEY,
        "twice",
    ),
]


@pytest.mark.parametrize(
    ("text", "reason", "words"), [pytest.param(*case[1:], id=case[0]) for case in FAULTS]
)
def test_a_fault_is_named_with_its_place(text: str, reason: UnreadableReason, words: str) -> None:
    """Whoever finds an unreadable record learns which field is wrong and what was expected."""
    read = allocation.decode(text)

    assert isinstance(read, allocation.Unreadable)
    assert (read.reason, words in read.detail) == (reason, True), read.detail
    assert len(read.detail) < 200
    assert set(read.detail) <= PRINTABLE_ASCII


def test_the_binding_carries_everything_a_container_needs() -> None:
    """The lists of a container stand in one order, and the pod's minors are sorted for people."""
    held = allocation.of(
        "gpu-node-1",
        {
            "main": {
                "gpu": [
                    share(OTHER, minor=8, core=50, memory=1024),
                    share(UUID, minor=3, core=25, memory=2048),
                ],
                "rdma": [share("rdma-0000:1f:00.0", minor=1, memory=0)],
            },
            "side": {"gpu": [share(OTHER, minor=8, core=50, memory=1024)]},
            "net": {"rdma": [share("rdma-0000:20:00.0", minor=2, memory=0)]},
        },
    )

    answer = allocation.annotations(held, term="berth-operator-7c9f_rook/12")

    assert answer == {
        names.ALLOCATION: allocation.encode(held),
        names.MINORS: "3,8",
        names.TERM: "berth-operator-7c9f_rook/12",
        "main.devices.berth.dev/uuids": f"{OTHER},{UUID}",
        "main.devices.berth.dev/minors": "8,3",
        "main.devices.berth.dev/memory": "1024,2048",
        "main.devices.berth.dev/core": "50,25",
        "side.devices.berth.dev/uuids": OTHER,
        "side.devices.berth.dev/minors": "8",
        "side.devices.berth.dev/memory": "1024",
        "side.devices.berth.dev/core": "50",
        "main.devices.berth.dev/rdma": "rdma-0000:1f:00.0",
        "net.devices.berth.dev/rdma": "rdma-0000:20:00.0",
        "net.devices.berth.dev/uuids": "void",
    }
    assert allocation.decode(answer[names.ALLOCATION]) == held, "two containers may share a card"
    assert [entry.container for entry in held.entries()] == ["main", "main", "main", "side", "net"]


def test_other_devices_have_keys_of_their_own() -> None:
    """Each type has one, and its virtual functions another; without GPUs there is no list of minors."""
    functions = [share("rdma-0000:1f:00.0", memory=0, vf=f"0000:1f:00.{at}") for at in (2, 3)]
    held = allocation.of("n", {"main": {"rdma": functions, "fpga": [share("fpga-0", memory=0)]}})

    answer = allocation.annotations(held, term="a/1")

    assert answer == {
        names.ALLOCATION: allocation.encode(held),
        names.TERM: "a/1",
        "main.devices.berth.dev/uuids": "void",
        "main.devices.berth.dev/rdma": "rdma-0000:1f:00.0",
        "main.devices.berth.dev/rdma-vfs": "0000:1f:00.2,0000:1f:00.3",
        "main.devices.berth.dev/fpga": "fpga-0",
    }


def test_a_node_full_of_cards_fits_into_the_annotations() -> None:
    """The largest pod there can be stays far below the 256 KiB that Kubernetes allows."""
    longest = [share(f"GPU-{minor:060}", minor=minor, memory=2**40, profile="1g.10gb") for minor in range(64)]
    held = allocation.of("n" * 253, {"c" * 63: {"gpu": longest}})

    answer = allocation.annotations(held, term="t" * 300)

    assert sum(len(key) + len(value) for key, value in answer.items()) < 32 * 1024
    assert allocation.decode(answer[names.ALLOCATION]) == held
