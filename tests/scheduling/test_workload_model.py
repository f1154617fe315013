"""What the workload teaches: prices that can be paid, space that is never worth less for being more."""

from typing import Final

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from berth_operator.scheduling import workload, workload_model
from berth_operator.scheduling.workload import GRID
from scheduling.placements import THOROUGH
from support import builders, random_clusters

SIZES = st.dictionaries(st.integers(1, GRID), st.integers(1, 64), min_size=1, max_size=12)
SMALL = st.dictionaries(st.integers(12, GRID), st.integers(1, 64), min_size=1, max_size=5)


def proportions(counts: dict[int, int]) -> bytes:
    """Write proportions as they are asked about."""
    return np.array([counts.get(size, 0) for size in range(GRID + 1)], dtype=np.int32).tobytes()


def priced(counts: dict[int, int]) -> dict[int, float]:
    """Return the price of each size."""
    sizes = np.array(sorted(counts), dtype=np.int64)
    wanted = np.array([counts[size] for size in sorted(counts)], dtype=np.float64)
    found = workload_model.prices(sizes, wanted / wanted.sum())
    return dict(zip(sizes.tolist(), found.tolist(), strict=True))


def dearest(price: dict[int, float], space: int) -> float:
    """Find what the dearest set of requests that fits into a space costs, trying all of them."""
    fitting = [size for size in price if size <= space]
    return max((price[size] + dearest(price, space - size) for size in fitting), default=0.0)


def known(*samples: workload.Sample) -> workload.Workload:
    """Return a workload of pods that ask so."""
    made = workload.Workload()
    for at, sample in enumerate(samples):
        made.see(f"s{at}", sample)
    return made


def supply(cpu: int = 8000, cards: int = 400, nodes: int = 2, model: str = "t4") -> workload_model.Supply:
    """Return what equal nodes have."""
    return workload_model.supply([(model, cards, cpu, 64 * builders.GIB)] * nodes)


def crowd(size: int, count: int = 200, *, cpu: int = 1000, models: workload.Models = ()) -> workload.Sample:
    """Return many requests of one size."""
    return workload.Sample(cpu, 0, ((size, count),), models)


# ---------------------------------------------------------------- prices


@THOROUGH
@hypothesis.given(counts=SIZES)
def test_prices_can_be_paid(counts: dict[int, int]) -> None:
    """However many sizes there are, no set of requests that fits on a card costs more than the card."""
    price = priced(counts)
    best = [0.0]
    for space in range(1, GRID + 1):
        best.append(max([best[-1], *(best[space - size] + price[size] for size in price if size <= space)]))

    assert min(price.values()) >= 0
    assert best[GRID] <= 1 + 1e-6


@THOROUGH
@hypothesis.given(counts=SMALL, space=st.integers(0, GRID))
def test_dearest_set_is_found(counts: dict[int, int], space: int) -> None:
    """The set that is found for a space is the dearest one, fits there and costs what is said."""
    price = priced(counts)
    sizes = np.array(sorted(price), dtype=np.int64)

    worth, held = workload_model.knapsack_values(sizes, np.array([price[size] for size in sizes.tolist()]))

    assert worth[space] == pytest.approx(dearest(price, space), abs=1e-9)
    assert held[space] @ sizes <= space
    assert held[space] @ np.array(list(price.values())) == pytest.approx(worth[space], abs=1e-9)


# ---------------------------------------------------------------- what space is worth


@THOROUGH
@hypothesis.given(
    counts=st.one_of(SIZES, st.dictionaries(st.integers(1, GRID), st.integers(1, 9), min_size=30))
)
def test_more_space_is_never_worth_less(counts: dict[int, int]) -> None:
    """Nothing is worth nothing, a whole card is worth one, and in between worth only grows."""
    worth = workload_model.worth_of_space(proportions(counts))

    assert len(worth) == GRID + 1
    assert (worth[0], worth[GRID]) == (0, workload_model.UNIT)
    assert list(worth) == sorted(worth)


def test_halves_make_steps() -> None:
    """Where only halves are asked for, less than a half is worth nothing, and less than two is worth one."""
    worth = workload_model.worth_of_space(proportions({50: 10}))

    assert [2 * worth[space] / workload_model.UNIT for space in (49, 50, 99, 100)] == [0, 1, 1, 2]


def test_equal_inputs_teach_the_same() -> None:
    """A model worked out anew is the same, to the last digit (I8)."""
    counts = proportions({10: 3, 33: 4, 50: 1, 100: 9})
    before = workload_model.worth_of_space(counts)
    workload_model.worth_of_space.cache_clear()

    assert workload_model.worth_of_space(counts) == before


# ---------------------------------------------------------------- the whole model


@pytest.mark.parametrize("count", [0, workload_model.ENOUGH - 1], ids=["no pod", "a handful"])
def test_few_pods_teach_no_worth(count: int) -> None:
    """Who knows few pods takes each space for what it is, and no card for one too many."""
    found = workload_model.learn(known(crowd(50, count)), supply())

    assert (found.space, found.surplus) == (workload_model.BY_SIZE, ())


def test_without_pods_cards_are_fed_evenly() -> None:
    """Until pods say otherwise, each percent of a card has its part of the nodes' cpu and memory."""
    found = workload_model.learn(known(), supply(cpu=8000, cards=400))

    assert found.cpu == pytest.approx(20)
    assert found.memory == pytest.approx(64 * builders.GIB / 400)


def test_thirsty_pods_are_learned() -> None:
    """Where pods ask much cpu with their cards, a card is taken to need much."""
    modest = workload_model.learn(known(*[crowd(100, 1, cpu=100)] * 100), supply())
    thirsty = workload_model.learn(known(*[crowd(100, 1, cpu=9000)] * 100), supply())

    assert modest.cpu == pytest.approx(1, rel=0.2)
    assert thirsty.cpu == pytest.approx(90, rel=0.2)


ELSEWHERE: Final = ("", 0, 3000, 64 * builders.GIB)  # A node without cards.


@pytest.mark.parametrize(
    ("samples", "nodes", "scarce"),
    [
        pytest.param([crowd(100, cpu=80)], [], False, id="cpu for twice as many"),
        pytest.param([crowd(100, 200, cpu=200 * 2200)], [], True, id="more cpu than there is"),
        pytest.param([crowd(100, 100, cpu=100 * 2200)], [], False, id="few pods"),
        pytest.param(
            [crowd(100, 200, cpu=0), workload.Sample(200 * 2200, 0)], [], True, id="cpu that goes elsewhere"
        ),
        pytest.param(
            [crowd(100, 200, cpu=0), workload.Sample(200 * 2200, 0)],
            [ELSEWHERE] * 100,
            False,
            id="cpu of other nodes",
        ),
        pytest.param(
            [crowd(100, 200, cpu=0), workload.Sample(0, 400 * 32 * builders.GIB)], [], True, id="memory"
        ),
    ],
)
def test_cpu_is_scarce_where_it_runs_out_before_the_cards(
    samples: list[workload.Sample], nodes: list[workload_model.Kind], *, scarce: bool
) -> None:
    """Four cards have 8 cpu: so many pods of one card may ask two, all others included."""
    cards = ("t4", 400, 8000, 64 * builders.GIB)

    found = workload_model.learn(known(*samples), workload_model.supply([cards, *nodes]))

    assert found.scarce is scarce


def test_model_that_few_may_use_is_in_surplus() -> None:
    """Cards of a model that most pods rule out cost less; those that all want do not."""
    nodes = workload_model.supply([("t4", 400, 8000, builders.GIB), ("h200", 400, 8000, builders.GIB)])

    found = workload_model.learn(known(crowd(100, models=("h200",))), nodes)

    assert dict(found.surplus)["t4"] < GRID
    assert "h200" not in dict(found.surplus)


def test_nodes_without_anything_teach_something() -> None:
    """No node, or nodes without cpu, break nothing."""
    for nodes in (workload_model.Supply(), supply(cpu=0)):
        found = workload_model.learn(known(crowd(50, cpu=0)), nodes)

        assert found.cpu > 0
        assert found.memory > 0


@random_clusters.PROPERTY
@hypothesis.given(samples=st.lists(random_clusters.SAMPLES, max_size=5), data=st.data())
def test_model_depends_on_nothing_else(samples: list[workload.Sample], data: st.DataObject) -> None:
    """Equal pods and equal nodes teach the same, whatever came first and whatever was learned before (I8)."""
    kinds = [("t4", 400, 8000, builders.GIB), ("h200", 800, 16000, builders.GIB), ("t4", 200, 8000, 0)]
    one = workload_model.learn(known(*samples), workload_model.supply(kinds))
    workload_model.learn(known(*samples[1:]), supply())
    workload_model._model.cache_clear()
    workload_model.worth_of_space.cache_clear()

    again = workload_model.supply(data.draw(st.permutations(kinds)))
    other = workload_model.learn(known(*data.draw(st.permutations(samples))), again)

    assert other == one
