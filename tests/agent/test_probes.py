"""What every probe promises, tried on the same nodes: simulated, through the mock of NVML, or real.

With BERTH_TEST_GPU set (`make test-gpu`) the cards of this machine join the nodes; they are
looked at and never broken.
"""

import contextlib
import itertools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from berth_agent import device_spec, probe, sampler
from berth_crds import vocabulary, wire
from support import nodes
from support.nvml import presets
from testbed import waiting

MAKERS: Final = dict(nodes.makers())
# A lost card is asked anew at once and then every few looks.
LOOKS_TO_RECOVER: Final = 8


@pytest.fixture(params=MAKERS)
def rig(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[nodes.Rig]:
    """Lend each node in turn."""
    yield from MAKERS[request.param](tmp_path, monkeypatch)


def preset(rig: nodes.Rig) -> presets.Preset:
    """Give what the node is known to be, or skip the test."""
    if rig.preset is None:
        pytest.skip("what a real machine should have is not known")
    return rig.preset


def ways(sample: probe.Sample) -> Mapping[tuple[int, int], wire.Link]:
    """Give the way between each two cards, by their indices."""
    index = {card.uuid: card.index for card in sample.answering_cards()}
    return {(card.index, index[link.peer]): link for card in sample.answering_cards() for link in card.links}


# ---------------------------------------------------------------- what holds of any node


def test_cards_have_identities(rig: nodes.Rig) -> None:
    """Every card answers, with a uuid, a minor and an address of its own, in the order of the index."""
    cards = tuple(nodes.look(rig.start()).answering_cards())

    assert cards
    assert [card.index for card in cards] == list(range(len(cards)))
    assert all(re.fullmatch(r"GPU-[0-9a-f-]{36}", card.uuid) for card in cards)
    identities = [(card.uuid, card.minor, card.location.bus_id) for card in cards]
    assert [len(set(column)) for column in zip(*identities, strict=True)] == [len(cards)] * 3


def test_a_look_changes_nothing(rig: nodes.Rig) -> None:
    """Equal nodes give equal samples, at the next look and to an agent that was started anew."""
    source = rig.start()
    first = nodes.look(source)

    assert (nodes.look(source), nodes.look(rig.start())) == (first, first)


def test_device_is_valid(rig: nodes.Rig) -> None:
    """The Device that follows is one that the schema accepts, and lists all cards."""
    source = rig.start()
    spec = nodes.spec(source)

    assert len(spec.devices) == len(nodes.look(source).cards)
    assert spec.driver and spec.driver.version and spec.boot_id


def test_links_agree_from_both_ends(rig: nodes.Rig) -> None:
    """Each card has one way to each other card, and the peer says the same of it."""
    sample = nodes.look(rig.start())
    found, count = ways(sample), len(sample.cards)

    assert len(found) == count * (count - 1)
    for (one, peer), link in found.items():
        assert (found[peer, one].kind, found[peer, one].count) == (link.kind, link.count)
        assert (link.count is None) == (link.kind is not vocabulary.LinkKind.NVLINK)


def test_partitions_are_groups_of_listed_cards(rig: nodes.Rig) -> None:
    """Groups come largest first, groups of one size share no card, and their cards are joined alike."""
    sample = nodes.look(rig.start())
    listed = {card.uuid: card for card in sample.answering_cards()}

    sizes = [len(group.members) for group in sample.partitions]
    assert sizes == sorted(sizes, reverse=True)
    for size, groups in itertools.groupby(sample.partitions, key=lambda group: len(group.members)):
        members = [member for group in groups for member in group.members]
        assert len(members) == len(set(members))
        assert set(members) <= listed.keys()
        assert size == 1 or all(listed[member].links for member in members)


# ---------------------------------------------------------------- what holds of nodes that are known


def test_cards_are_those_of_the_node(rig: nodes.Rig) -> None:
    """Models stand as the driver names them, with the memory and the capability of the catalogue."""
    expected = [seat.known for seat in preset(rig).seats]
    cards = nodes.look(rig.start()).answering_cards()

    assert [
        (card.vendor, card.model, card.memory, card.compute_capability, card.mig is not None)
        for card in cards
    ] == [
        ("nvidia", model.name, model.memory, model.compute_capability, bool(model.mig)) for model in expected
    ]


# NVLinks of a DGX-1 with V100, as `nvidia-smi topo -m` prints them; every row has six.
CUBE: Final = (
    "- 1 1 2 2 0 0 0",
    "1 - 2 1 0 2 0 0",
    "1 2 - 2 0 0 1 0",
    "2 1 2 - 0 0 0 1",
    "2 0 0 0 - 1 1 2",
    "0 2 0 0 1 - 2 1",
    "0 0 1 0 1 2 - 2",
    "0 0 0 1 2 1 2 -",
)
NVLINKS: Final = {
    presets.DGX_1V.name: tuple(row.split() for row in CUBE),
    presets.DGX_A100.name: tuple(["12"] * 8 for _ in range(8)),
    presets.HGX_H100.name: tuple(["18"] * 8 for _ in range(8)),
}


def test_nvlinks_are_those_of_the_board(rig: nodes.Rig) -> None:
    """Every pair has as many NVLinks as the board has between them, and pairs without have another way."""
    name, count = preset(rig).name, len(preset(rig).seats)
    expected = NVLINKS.get(name, tuple(["0"] * count for _ in range(count)))
    found = ways(nodes.look(rig.start()))

    for one, peer in itertools.permutations(range(count), 2):
        assert str(found[one, peer].count or 0) == expected[one][peer], (one, peer)


def test_boards_with_a_switch_have_partitions(rig: nodes.Rig) -> None:
    """A full board of A100 or H100 is cut into 8, twice 4, four times 2 and single cards; others are not."""
    score = {presets.DGX_A100.name: 12, presets.HGX_H100.name: 18}.get(preset(rig).name)
    found = nodes.look(rig.start()).partitions

    expected = [] if score is None else [(8, score), *[(4, score)] * 2, *[(2, score)] * 4, *[(1, 0)] * 8]
    assert [(len(group.members), group.score) for group in found] == expected


# ---------------------------------------------------------------- what holds of nodes that break


def test_a_lost_card_is_one_entry(rig: nodes.Rig) -> None:
    """One card that stops to answer is one entry with a reason; the others say what they said."""
    source = rig.start()
    before, spec = nodes.look(source), nodes.spec(source)
    rig.lose(0)

    after = nodes.look(source)
    (lost,) = after.lost_cards()
    assert lost.index == 0
    assert re.fullmatch(r"[A-Z][A-Za-z]+", lost.reason)
    assert lost.message
    assert not lost.message.endswith(".")
    assert (*after.answering_cards(),) == tuple(before.answering_cards())[1:]
    # The Device goes on listing what it listed, and gets one bad verdict.
    assert device_spec.spec(nodes.NODE, after, spec) == spec
    assert [card.uuid for card in nodes.status(after, spec).devices] == [spec.devices[0].uuid]


def test_a_lost_card_comes_back(rig: nodes.Rig) -> None:
    """A card that answers again is seen again, without anybody starting anything anew."""
    source = rig.start()
    before = nodes.look(source)
    rig.lose(0)
    nodes.look(source)
    rig.find(0)

    assert before in [nodes.look(source) for _ in range(LOOKS_TO_RECOVER)]
    assert nodes.look(source) == before


def test_all_cards_lost_is_no_failed_source(rig: nodes.Rig) -> None:
    """A node whose cards are all lost has as many bad entries, and its source still answers."""
    source = rig.start()
    count = len(nodes.look(source).cards)
    for index in range(count):
        rig.lose(index)

    assert len(list(nodes.look(source).lost_cards())) == count


def test_a_failed_source_is_told_and_recovers(rig: nodes.Rig) -> None:
    """A source that says nothing is a reason and a sentence, never an empty node, and is asked anew."""
    source = rig.start()
    before = nodes.look(source)
    rig.fail()

    failed = nodes.failed(source)
    assert failed.reason == "DriverNotLoaded"
    assert failed.message.endswith(".")
    rig.mend()
    assert nodes.look(source) == before


async def test_a_hung_source_is_told_and_recovers(rig: nodes.Rig) -> None:
    """A look that hangs keeps nobody waiting past the deadline, and looks go on once it ends."""
    source = rig.start()
    before = nodes.look(source)
    rig.hang()
    with contextlib.closing(sampler.Sampler(source, deadline=0.2)) as asking:
        for _ in range(2):
            hung = (await asking.sample()).outcome
            assert isinstance(hung, probe.SourceFailed)
            assert hung.reason == "Hung"
        rig.mend()

        async def is_whole_again() -> bool:
            return (await asking.sample()).outcome == before

        await waiting.eventually(is_whole_again, what="a look that does not hang")
