"""What a damaged record, and the words beside it, still tell of the cards of a pod (I9)."""

import json
from typing import Any

import pytest

from berth_crds import names
from berth_operator.scheduling import holds
from berth_operator.translate import held_devices
from support import builders
from translate import pod_requests

HELD = builders.record("n1", main=[2])
RECORD = HELD[names.ALLOCATION]
UUIDS, MINORS = names.container_key("main", "uuids"), names.container_key("main", "minors")
BESIDE = {names.TERM: "7", names.MINORS: "2", UUIDS: builders.uuid("n1", 2), MINORS: "2"}
BOTH = frozenset({2, builders.uuid("n1", 2)})


def holding(**words: str) -> holds.Hold:
    """Return what a bound pod that asks for one card keeps from others, for these words on it."""
    return pod_requests.bound(builders.pod(gpus=1, nodeName="n1", annotations=words)).hold


SPOILED: dict[str, str] = {
    "no JSON": "{",
    "nothing": "",
    "a part of it": RECORD[: len(RECORD) // 2],
    "a number of another kind": RECORD.replace('"core":100', '"core":NaN'),
    "less than nothing": RECORD.replace('"core":100', '"core":-100'),
    "a version to come": RECORD.replace('"v":1', '"v":2'),
    "a key that is given twice": RECORD.replace('"v":1', '"v":1,"v":1'),
    "another node": RECORD.replace('"n1"', '"n9"'),
    "no containers": json.dumps({"v": 1, "node": "n1", "containers": {}}),
    "too deep": "[" * 100_000,
}


@pytest.mark.parametrize("text", SPOILED.values(), ids=SPOILED.keys())
def test_what_stands_beside_a_damaged_record_is_kept_from_others(text: str) -> None:
    """The very card, by uuid and by minor, and nothing beyond what the pod asks for."""
    found = holding(**BESIDE | {names.ALLOCATION: text})

    assert (found.shares, found.withheld) == ((), 0)
    assert found.marked >= BOTH


@pytest.mark.parametrize("beside", [{names.MINORS: "2"}, {UUIDS: "GPU-n1-2"}, {MINORS: "2"}], ids=str)
def test_one_word_is_enough(beside: dict[str, str]) -> None:
    """Whichever of them was left."""
    found = holding(**beside)

    assert (found.withheld, found.marked) == (0, frozenset({2} if "GPU" not in str(beside) else {"GPU-n1-2"}))


LEGIBLE: dict[str, tuple[str, Any]] = {
    "a part of it": (RECORD[: RECORD.index('"minor"')], {"GPU-n1-2"}),
    "a version to come": (RECORD.replace('"v":1', '"v":2'), BOTH),
    "another node": (RECORD.replace('"n1"', '"n9"'), BOTH),
    "less than nothing": (RECORD.replace('"core":100', '"core":-100'), BOTH),
}


@pytest.mark.parametrize(("text", "expected"), LEGIBLE.values(), ids=LEGIBLE.keys())
def test_what_is_legible_in_a_damaged_record_counts(text: str, expected: Any) -> None:
    """Where nothing stands beside it, what it says itself is kept from others."""
    found = holding(**{names.ALLOCATION: text})

    assert (found.withheld, found.marked) == (0, expected)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"v":1,"node":"n1","containers":{}}'])
def test_where_nothing_is_named_everything_is_kept_back(text: str) -> None:
    """Whatever nobody else holds by name."""
    assert holding(**{names.ALLOCATION: text}).withheld == holds.ALL_CARDS


def test_too_few_names_leave_a_rest() -> None:
    """A pod of three cards of which one is named withholds two more."""
    found = pod_requests.bound(builders.pod(gpus=3, nodeName="n1", annotations={UUIDS: "GPU-n1-2"})).hold

    assert (found.withheld, found.marked) == (2, frozenset({"GPU-n1-2"}))


def test_words_that_agree_with_the_record_add_nothing() -> None:
    """That is every pod which was bound and left alone."""
    found = pod_requests.bound(builders.pod(gpus=1, nodeName="n1", annotations=HELD | BESIDE))

    assert (found.hold.marked, found.hold.withheld, found.fault) == (frozenset(), 0, "")


def test_words_that_name_another_card_keep_it_back_as_well() -> None:
    """The record is believed, and so is what it does not say."""
    found = pod_requests.bound(
        builders.pod(gpus=1, nodeName="n1", annotations=HELD | BESIDE | {UUIDS: "GPU-n1-3"})
    )

    assert [share.uuid for share in found.hold.shares] == ["GPU-n1-2"]
    assert found.hold.marked == {"GPU-n1-3"}
    assert found.fault == "its annotations name other cards than its allocation"


@pytest.mark.parametrize(
    "text", [",,,", "x" * 100_000, "GPU n1", "-1", "1" * 50, "\N{ARABIC-INDIC DIGIT TWO}"]
)
def test_odd_words_name_nothing(text: str) -> None:
    """They are read a little way, and never raise."""
    assert holding(**{names.MINORS: text, names.ALLOCATION: "{"}).withheld == holds.ALL_CARDS


def test_no_pod_marks_without_end() -> None:
    """Words that name a million minors name as many as a node may have, and keep the whole node back."""
    many = ",".join(map(str, range(100_000)))
    keys = {names.container_key(f"c{at}", "minors"): f"{at + 1}{at:05},{many}" for at in range(9)}

    found = holding(**{names.MINORS: many} | keys)

    assert len(found.marked) == held_devices.MAX_MARKED
    assert found.withheld == holds.ALL_CARDS


def test_what_a_pod_asks_for_since_it_was_bound_does_not_count() -> None:
    """An annotation is for anybody to edit; the record and the resources are not."""
    asks = {names.GPU: "6400", "gpu-fraction": "nonsense"}
    recorded = pod_requests.bound(builders.pod(gpus=1, nodeName="n1", annotations=HELD | BESIDE | asks))
    without = pod_requests.bound(builders.pod(nodeName="n1", annotations={names.TERM: "7"} | asks))

    assert (recorded.hold.withheld, recorded.fault) == (0, "")
    assert (without.hold.withheld, without.hold.marked, without.fault) == (0, frozenset(), "")
