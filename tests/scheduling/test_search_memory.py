"""What a search remembers: it is bounded, and asked anew where something has changed."""

from unittest import mock

import pytest

from berth_operator.scheduling import decisions, node_table, search_memory, signatures
from berth_operator.scheduling.devices import allocator, device_view, requests
from berth_operator.scheduling.devices.search_effort import Effort
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.node_scores import Scorer
from berth_operator.scheduling.search import Search
from berth_operator.scheduling.search_memory import REMEMBERED_BYTES
from scheduling.placements import RULES
from support import builders
from support import volumes as make

CARD = builders.request(1)


def ask(
    search: Search, request: requests.DeviceRequest = CARD, cpu: int = 1000
) -> decisions.Placement | None:
    """Look for a place."""
    return search.place(request, builders.demand(cpu), policy=RULES)


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods with a thousand different requests do not fill the memory."""
    monkeypatch.setattr("berth_operator.scheduling.search_memory.MOST_REMEMBERED", 4)
    search = Search(builders.inventory(*builders.nodes(1)))

    for cpu in range(1, 20):
        ask(search, cpu=cpu)

    assert len(search._cached) <= 4


def test_log_that_was_cut_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is not known any more what has changed, all nodes are asked again."""
    monkeypatch.setattr(node_table, "LOG_KEPT", 1)
    search = Search(builders.inventory(*builders.nodes(3, cards=1)))
    before = ask(search)

    for at in ("n1", "n2", "n3"):
        search.inventory.charge(builders.hold(at, at, (0,)))

    assert before is not None
    assert ask(search) is None


def asked_anew() -> tuple[Inventory, object]:
    """Ask nine nodes, change one and ask again; return which rows the second time was put to."""
    inventory = builders.inventory(*builders.nodes(9))
    search = Search(inventory)
    ask(search)
    inventory.charge(builders.hold("a", "n4", (0,)))

    with mock.patch.object(Scorer, "score", autospec=True, side_effect=Scorer.score) as asked:
        ask(search)

    ((_, _, rows), _) = asked.call_args
    return inventory, rows


def test_one_change_asks_one_node_anew() -> None:
    """A pod with a signature that was asked before looks only at the nodes that changed."""
    inventory, rows = asked_anew()

    at = inventory.index["n4"]
    assert rows == slice(at, at + 1)


def test_nodes_are_scored_only_where_one_passes() -> None:
    """What became full since is not scored, and no longer counts with the score that it had."""
    inventory = builders.inventory(*builders.nodes(2, cards=1))
    search = Search(inventory)
    first = ask(search)
    assert first is not None
    inventory.charge(builders.hold("a", first.node, (0,)))

    with mock.patch.object(Scorer, "score_input", autospec=True, side_effect=Scorer.score_input) as scored:
        second = ask(search)

    assert second is not None
    assert second.node != first.node
    assert not scored.called


def test_what_is_remembered_is_weighed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long lists count by their length: fewer of them are kept, and nothing is left when they are gone."""
    monkeypatch.setattr("berth_operator.scheduling.search_memory.REMEMBERED_BYTES", 100_000)
    search = Search(builders.inventory(*builders.nodes(1)))

    for at in range(20):
        uuids = frozenset(f"GPU-{at}-{number}" for number in range(200))
        ask(search, builders.request(1, conditions=requests.Conditions(uuids=uuids)))
    kept = len(search._cached)
    for cpu in range(1, 200):
        ask(search, cpu=cpu)

    assert kept == 3
    assert search._cached.bytes == sum(answer.bytes for answer in search._cached)
    assert search._cached.bytes <= REMEMBERED_BYTES


def test_what_closer_looks_showed_is_weighed() -> None:
    """What is remembered of single nodes counts, until they change."""
    search = Search(builders.inventory(*builders.nodes(3, cards=1)))
    shares = requests.Gpus(1, core=60), requests.Gpus(1, core=30, ratio=90), requests.Gpus(1, core=9)
    assert ask(search, builders.request(*shares)) is not None
    (answer,) = search._cached
    answer.reasons_by_row[0] = decisions.Reason.FULL, ""

    search.inventory.charge(builders.hold("a", "n1"))
    ask(search, builders.request(*shares))

    assert not answer.reasons_by_row
    assert search._cached.bytes == answer.bytes


def test_what_was_not_decided_in_time_is_weighed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each further try forgets why the class of a node was undecided, and notes it again."""
    search = Search(builders.inventory(*builders.nodes(3, cards=1)))
    undecided = allocator.Shortfall(decisions.Reason.UNDECIDED)
    monkeypatch.setattr(allocator, "allocate_or_explain", lambda *_, **__: undecided)
    shares = builders.request(requests.Gpus(1, core=60), requests.Gpus(1, core=30, ratio=90))
    tries = search_memory.MOST_RETRIES

    for _ in range(tries):
        assert search.place(shares, builders.demand(), policy=RULES, effort=Effort(expired=bool)) is None

    (answer,) = search._cached
    assert answer.undecided_tries_by_row.total() > tries
    assert answer.reasons_by_class
    assert search._cached.bytes == answer.bytes


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Have all nodes refuse, and return those whose devices are searched, as the test goes on."""
    nodes = list[str]()

    def refuse(view: device_view.View, *_: object, **__: object) -> allocator.Shortfall:
        nodes.append(view.device.node)
        return allocator.Shortfall(decisions.Reason.FULL)

    monkeypatch.setattr(allocator, "allocate_or_explain", refuse)
    return nodes


def test_nodes_that_have_not_changed_refuse_as_before_when_scores_are_void(searched: list[str]) -> None:
    """The largest node may change each second, and with it the scores of all: only it is searched again."""
    inventory = builders.inventory(*builders.nodes(3), builders.node("big"), builders.device("big", 8))
    search = Search(inventory)
    shares = builders.request(requests.Gpus(1, core=60), requests.Gpus(1, core=30, ratio=90))
    ask(search, shares)
    at_first, epoch = searched.copy(), inventory.score_epoch
    searched.clear()
    inventory.put_device(builders.device("big", 9))
    ask(search, shares)

    assert (len(at_first), searched) == (2, ["big"])  # Three of the four are of one class.
    assert inventory.score_epoch > epoch
    assert search.reasons_by_row(signatures.of(shares, builders.demand()), RULES).keys() == set(range(4))


def test_a_claim_that_changes_has_no_node_searched_again(searched: list[str]) -> None:
    """Anybody's claim makes the scores of pods with claims void, but not what their devices answered."""
    inventory = builders.inventory(*builders.nodes(3))
    search = Search(inventory)
    shares = builders.request(requests.Gpus(1, core=60), requests.Gpus(1, core=30, ratio=90))
    make.put(inventory.volumes, make.claim(volume="v"), make.volume(claimed="data"))
    demand = make.using("data").demand
    assert search.place(shares, demand, policy=RULES) is None
    at_first, version = len(searched), inventory.volumes.version
    make.put(inventory.volumes, make.claim("theirs"))
    assert inventory.volumes.version > version

    assert search.place(shares, demand, policy=RULES) is None
    assert len(searched) == at_first > 0


def test_the_class_that_was_not_met_for_longest_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that changes all the time drives out nothing that many share; each counts by its size."""
    monkeypatch.setattr(search_memory, "MOST_CLASSES", 2)
    reasons, full = search_memory.ReasonsByClass(), (decisions.Reason.FULL, "")
    reasons.remember("shared", full, 8)

    for change in range(5):
        reasons.remember(change, full, 500)
        assert reasons.get("shared") == full

    assert [reasons.get(change) for change in range(5)] == [None] * 4 + [full]
    assert reasons.bytes == 2 * search_memory.BYTES_PER_REASON + 508 * search_memory.BYTES_PER_DEVICE
