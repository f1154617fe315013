"""A little of `make fuzz`: known bad pods and their like neither hang nor break the loop."""

import asyncio
import gc
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import fuzz, in_memory_operator, pod_generator, results
from berth_crds import catalog, names
from berth_operator.scheduling import cycle

NODES = 200
FEW_NODES = 20  # Where it is not the time that counts.
PODS = 80
HANGS = 1.0  # Seconds of this thread, far above any noise: without bounds, some of these take many.


@pytest.fixture
def operator() -> Iterator[in_memory_operator.InMemoryOperator]:
    """Yield a small cluster and a loop over it."""
    made = in_memory_operator.InMemoryOperator(FEW_NODES)
    yield made
    made.close()


def test_no_pod_hangs_the_loop() -> None:
    """Pods of every kind come, are decided and leave again, and none keeps the loop for long."""
    operator = in_memory_operator.InMemoryOperator(NODES)

    async def play() -> fuzz.Broken | None:
        run = fuzz.Run(operator, seed=7, most=HANGS)
        broken = None
        while broken is None and run.count < PODS:
            broken = await run.burst()
        return broken

    try:
        assert asyncio.run(play()) is None
    finally:
        operator.close()
    assert {"bound", "waits", "InvalidRequest", "UnsupportedRequest"} <= operator.status_writer.answers.keys()


def test_nothing_is_kept_of_a_pod_that_is_gone(operator: in_memory_operator.InMemoryOperator) -> None:
    """Otherwise the memory for long requests would fill up, and no later one would be decided."""
    long = pod_generator.pod(pod_generator.ONE_CARD)
    long["metadata"]["annotations"] = {names.MODEL: ",".join(f"model-{at}" for at in range(60))}
    before = repr(operator.sink.budget)

    uids = [operator.deliver(long), operator.deliver(long)]
    meanwhile = repr(operator.sink.budget)
    for uid in uids:
        operator.end(uid)

    assert meanwhile != before
    assert repr(operator.sink.budget) == before


def test_what_is_tried_again_finds_nothing_remembered(operator: in_memory_operator.InMemoryOperator) -> None:
    """Not even where objects are frozen, as they are in a long run: Python lists none of those."""
    catalog.model_key("NVIDIA H100 80GB HBM3")
    gc.freeze()
    try:
        operator.forget()
    finally:
        gc.unfreeze()

    assert catalog.model_key.cache_info().currsize == 0


def test_what_breaks_a_bound_is_told(operator: in_memory_operator.InMemoryOperator) -> None:
    """A pod that takes longer than is allowed is named with what it took, after it was tried again."""

    async def play() -> fuzz.Broken | None:
        return await fuzz.Run(operator, seed=7, most=0.0).confirmed(pod_generator.pod(pod_generator.ONE_CARD))

    broken = asyncio.run(play())

    assert broken is not None
    assert broken.pod == pod_generator.pod(pod_generator.ONE_CARD)
    assert "ms of the loop (translated " in broken.what


def test_equal_seeds_draw_equal_pods(operator: in_memory_operator.InMemoryOperator) -> None:
    """A seed plays the same pods again, as long as none was slow."""
    draws = [fuzz.Run(operator, seed=3).draw for _ in range(2)]

    first, second = ([draw.next() for _ in range(30)] for draw in draws)

    assert first == second


def test_measuring_ends() -> None:
    """What is measured for one operator is not measured after it is closed."""
    before = cycle.place_or_count_reasons
    operator = in_memory_operator.InMemoryOperator(1)
    meanwhile = cycle.place_or_count_reasons

    operator.close()

    assert meanwhile is not before
    assert cycle.place_or_count_reasons is before


# ---------------------------------------------------------------- the verdict


def test_a_slow_round_now_and_then_is_the_machine(operator: in_memory_operator.InMemoryOperator) -> None:
    """A round cannot be tried again, so only several slow ones of few are the operator's fault."""
    run = fuzz.Run(operator, seed=1)

    slow = [run.judge_round(1.0) for _ in range(fuzz.SLOW_ROUNDS + 1)]

    assert slow[:-1] == [None] * fuzz.SLOW_ROUNDS
    assert slow[-1] is not None
    assert slow[-1].what == "4 of 4 rounds took too long, the last 1000.0 ms"


@pytest.mark.parametrize(
    ("grown", "minutes", "said"),
    [
        pytest.param(64 << 20, 10, None, id="as much as a short run may"),
        pytest.param(65 << 20, 10, "memory grew by 65 MiB; 64 are allowed", id="more than that"),
        pytest.param(100 << 20, 120, None, id="as much as a long run may"),
    ],
)
def test_memory_that_stays_is_told(grown: int, minutes: float, said: str | None) -> None:
    """What has grown since the beginning has a bound, by the hour."""
    broken = fuzz.judge_memory(grown, minutes)

    assert (broken.what if broken else None) == said


@pytest.mark.parametrize(
    ("most", "code", "said"),
    [
        pytest.param(HANGS, 0, "kept: of ", id="kept"),
        pytest.param(0.0, 1, "broken by pod ", id="broken"),
    ],
)
def test_the_exit_status_is_the_verdict(
    most: float,
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """Whoever runs it need not read: 1 says that a bound was broken, and the last lines say by what."""
    monkeypatch.setattr(fuzz, "MOST_SECONDS", most)
    monkeypatch.setattr(results, "ROOT", tmp_path)
    monkeypatch.setattr(results, "FOLDER", tmp_path)

    found = asyncio.run(fuzz.main(["--minutes", "0.01", "--seed", "7", "--nodes", f"{FEW_NODES}"]))

    printed = capsys.readouterr()
    assert found == code
    assert said in (printed.err if code else printed.out)
    assert json.loads((tmp_path / "fuzz.json").read_text())["found"]["seed"] == 7
    assert bool(list(tmp_path.glob("fuzz-7-*.yaml"))) == bool(code)
