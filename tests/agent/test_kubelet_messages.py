"""The kubelet's messages read by hand are what the real protobuf reads."""

from collections.abc import Callable
from typing import Any, Final

import hypothesis
import pytest
from google.protobuf import message
from hypothesis import strategies as st

from berth_agent import protobuf
from berth_agent.kubelet import messages
from support import messages as second
from support import thorough
from support.podresources import field, varint

KIND: Final = "ListPodResourcesResponse"
REAL: Final = second.classes()[KIND]

TEXT = st.text(max_size=20)
DEVICES = st.fixed_dictionaries({"resource_name": TEXT, "device_ids": st.lists(TEXT, max_size=3)})
CLAIMED = st.fixed_dictionaries({"driver_name": TEXT, "device_name": TEXT})
CLAIMS = st.fixed_dictionaries(
    {"claim_name": TEXT, "claim_namespace": TEXT, "claim_resources": st.lists(CLAIMED, max_size=3)}
)
CONTAINERS = st.fixed_dictionaries(
    {
        "name": TEXT,
        "devices": st.lists(DEVICES, max_size=3),
        "dynamic_resources": st.lists(CLAIMS, max_size=2),
    }
)
PODS = st.lists(
    st.fixed_dictionaries({"name": TEXT, "namespace": TEXT, "containers": st.lists(CONTAINERS, max_size=3)}),
    max_size=4,
)


def real(body: bytes) -> Any:
    """Read an answer by the real protobuf; None where it refuses."""
    try:
        return second.plain(REAL.FromString(body), KIND)["pods"]
    except message.DecodeError:
        return None


@hypothesis.given(PODS)
def test_what_protobuf_writes_is_read(pods: list[dict[str, Any]]) -> None:
    """Every message that there can be is read as it was written."""
    assert list(messages.listed(REAL(pods=pods).SerializeToString())) == pods


def read(body: bytes) -> Any:
    """Read an answer by hand, or give why that cannot be."""
    try:
        return list(messages.listed(body))
    except protobuf.Malformed as error:
        return str(error)


# What a mutation may put in: real bytes of the format, so that it gets past the first of them.
PIECES = st.one_of(
    st.binary(max_size=6),
    st.builds(field, st.integers(1, 5), st.one_of(st.binary(max_size=8), TEXT)),
    st.builds(lambda number, kind: varint(number << 3 | kind), st.integers(0, 5), st.integers(0, 7)),
)


@hypothesis.settings(max_examples=thorough.examples(400))
@hypothesis.given(PODS, st.data())
def test_damaged_messages_are_refused_or_read_alike(pods: list[dict[str, Any]], data: st.DataObject) -> None:
    """Whatever protobuf reads, we read alike or refuse for a reason that it does not mind.

    Groups, which nobody has written for twenty years, and numbers in the place of texts are
    refused here and skipped there.
    """
    body = REAL(pods=pods).SerializeToString()
    at = data.draw(st.integers(0, len(body)))
    cut = data.draw(st.integers(0, len(body)))
    damaged = body[:at] + data.draw(PIECES) + body[cut:]
    expected = real(damaged)

    found = read(damaged)
    if expected is not None and found != expected:
        assert isinstance(found, str), found
        assert "unknown kind" in found or "is a number" in found


@pytest.mark.parametrize(
    ("body", "why"),
    [
        pytest.param(b"\x0a", "without an end", id="no length"),
        pytest.param(b"\x0a\x05ab", "ends amid a field", id="cut off"),
        pytest.param(b"\xff" * 11, "without an end", id="endless number"),
        pytest.param(b"\x0b", "unknown kind 3", id="a group"),
        pytest.param(b"\x08\x01", "is a number", id="a number where a pod should be"),
        pytest.param(field(1, field(1, b"\xff")), "not UTF-8", id="no text"),
    ],
)
def test_malformed_answers_say_why(body: bytes, why: str) -> None:
    """Each way to be malformed has its words."""
    with pytest.raises(protobuf.Malformed, match=why):
        list(messages.listed(body))


def test_fields_of_newer_versions_are_skipped() -> None:
    """Numbers, fixed words and messages that nobody knows here stand between those that are read."""
    unknown = varint(9 << 3) + varint(300) + varint(10 << 3 | 1) + b"8 bytes." + varint(11 << 3 | 5) + b"four"
    body = unknown + field(1, field(7, "x") + field(1, "train") + unknown)

    assert list(messages.listed(body)) == [{"name": "train", "namespace": "", "containers": []}]


# ---------------------------------------------------------------- too much of anything

POD = field(1, b"")
IN_A_POD = {
    "pods": lambda many: POD * many,
    "containers": lambda many: field(1, field(3, b"") * many),
    "devices": lambda many: field(1, field(3, field(2, b"") * many)),
    "device ids": lambda many: field(1, field(3, field(2, field(2, b"") * many))),
}


@pytest.mark.parametrize(("what", "made"), IN_A_POD.items(), ids=IN_A_POD.keys())
def test_an_answer_has_so_much_of_anything(what: str, made: Callable[[int], bytes]) -> None:
    """What is two bytes on the wire is a hundred times that in memory: more than any node has is not read."""
    most = messages.MOST[what.replace(" ", "_")]

    assert list(messages.listed(made(most)))
    with pytest.raises(messages.TooMuch, match=f"it has more than {most} {what}"):
        list(messages.listed(made(most + 1)))


def test_what_is_skipped_is_counted_too() -> None:
    """Fields that nobody reads take time as well, on whatever level they stand."""
    skipped = varint(9 << 3) + varint(1)
    body = field(1, skipped * (messages.MOST["fields"] // 2)) * 2

    with pytest.raises(messages.TooMuch, match="more than 1000000 fields"):
        list(messages.listed(body))
