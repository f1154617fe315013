"""Conditions on their way to a server: their order and number, what they cost, and those that fail."""

import asyncio

import pytest

from berth_crds.client import errors
from berth_operator.engine import rate_limiter
from berth_operator.kube import condition_budget, pod_status
from kube.servers import StatusWriting, error, numbered, pod_info, reset
from support import pods, timeless

MIB = 1 << 20

# ---------------------------------------------------------------- what is written


@pytest.mark.parametrize("message", ["A", "x" * 100_000], ids=["a sentence", "one that is cut"])
@timeless.scenario
async def test_the_same_again_is_silence(message: str) -> None:
    """The same is written once: before its write, after it, after the pod shows it, and by a new leader."""
    writer, later = StatusWriting(), StatusWriting()
    writer.refuse_new("p", message=message)
    async with timeless.beside(writer.run()):
        writer.refuse("p", message)
        await writer.until_settled()
        writer.refuse("p", message)
        for observer in (writer, later):
            observer.see("p", writer.server.messages[0], version="6")
            observer.refuse("p", message)
        await timeless.passing(5.0)

    assert len(writer.server.writes) == len(writer.events.recorded) == 1
    assert later._due == {}
    assert later.events.recorded == []


@timeless.scenario
async def test_only_the_last_sentence_of_a_pod_that_still_waits_is_written() -> None:
    """Those before it are overtaken, and of a pod that is placed none is written any more."""
    writer = StatusWriting()
    for message in "ABC":
        writer.refuse_new("p", "placed", message=message)
    writer.bound(pod_info("placed"), pods.placement("n1", pods.CARD, pods.OTHER_CARD))

    await writer.write_until(lambda: not writer._due)

    assert writer.server.messages == ["C"]
    assert writer.events.recorded[-1] == ("Scheduled", "Successfully assigned ml/placed to n1 with cards 0,1")


@pytest.mark.parametrize(
    ("shows", "reason", "refused", "expected"),
    [
        pytest.param("no room", pod_status.UNSCHEDULABLE, "", "no room", id="whoever wrote it"),
        pytest.param(
            "no room", pod_status.UNSCHEDULABLE, "full", "full", id="what is due is as good as shown"
        ),
        pytest.param("no room", "InvalidRequest", "", "", id="no sentence about nodes"),
        pytest.param("", "", "", "", id="no condition"),
        pytest.param(None, "", "", "", id="a pod that nobody has seen"),
    ],
)
def test_what_a_pod_shows(shows: str | None, reason: str, refused: str, expected: str) -> None:
    """A new leader learns from it what it need not find out anew."""
    writer = StatusWriting()
    if shows is not None:
        writer.see("p", shows, reason=reason)
    if refused:
        writer.refuse("p", refused)

    assert writer.shown_message("ml-p") == expected


@timeless.scenario
async def test_a_condition_that_changes_back_while_it_is_written_is_written_back() -> None:
    """What was shown before the write under way is no reason to leave that one standing."""
    writer, gate = StatusWriting(), asyncio.Event()
    writer.on("p", None, gate.wait)
    writer.see("p")
    async with timeless.beside(writer.run()):
        for count, message in enumerate("ABA", 1):
            writer.refuse("p", message)
            if count == 3:
                gate.set()
            await writer.server.until(count)

    assert writer.server.messages == ["A", "B", "A"]


@pytest.mark.parametrize("trouble", [error(409), error(503), reset()], ids=["409", "503", "reset"])
@timeless.scenario
async def test_what_is_said_again_while_its_write_fails_is_written(trouble: errors.ClientError) -> None:
    """A condition that is on its way is not shown yet: it stays due until the server has taken it."""
    writer, gate = StatusWriting(), asyncio.Event()

    async def fail() -> None:
        await gate.wait()
        raise trouble

    writer.on("p", fail)
    writer.refuse_new("p")
    async with timeless.beside(writer.run()):
        await writer.server.until(1)
        writer.refuse("p")
        gate.set()
        await writer.server.until(2)

    assert writer.server.messages == ["A", "A"]


# ---------------------------------------------------------------- what is written first


@timeless.scenario
async def test_who_shows_nothing_yet_comes_first() -> None:
    """A crowd whose message changes keeps nobody from the first one, and the server gets them at a pace."""
    writer = StatusWriting(rate_limiter.RateLimiter(timeless.clock(), lambda: 500.0))
    writer.refuse_new(*numbered("p", range(200)), message="B", shows="A")
    async with timeless.beside(writer.run()):
        await writer.server.until(1)
        writer.refuse_new("new", message="C")
        await writer.server.until(201)

    assert writer.server.messages.index("C") <= pod_status.BATCH + pod_status.AT_ONCE
    assert writer.server.writes[-1].moment == pytest.approx(200 / 500.0)


@timeless.scenario
async def test_a_stream_of_new_pods_keeps_no_other_from_its_new_message() -> None:
    """Whoever makes pods faster than conditions are written does not freeze what all others show."""
    writer = StatusWriting()
    writer.refuse_new("old", message="B", shows="A")

    async def come() -> None:
        await asyncio.sleep(0.001)
        name = f"p{len(writer._shown)}"
        writer.on(name, come, namespace="x")
        writer.refuse_new(name, namespace="x")

    for _ in range(2 * pod_status.BATCH):
        await come()
    await writer.write_until(lambda: len(writer.server.writes) >= 4 * pod_status.BATCH)

    assert "B" in writer.server.messages


@pytest.mark.parametrize("shows", ["", "A"], ids=["first ones", "new ones"])
@timeless.scenario
async def test_namespaces_take_turns(monkeypatch: pytest.MonkeyPatch, shows: str) -> None:
    """A crowd of one delays no message of another, even where a batch has not one for each namespace."""
    monkeypatch.setattr(pod_status, "BATCH", 2)
    monkeypatch.setattr(pod_status, "RESERVED_FOR_REWRITES", 1)
    writer = StatusWriting()
    for namespace, count in {"a": 6, "b": 6, "c": 6, "ml": 1}.items():
        writer.refuse_new(*numbered("p", range(count)), message=namespace, namespace=namespace, shows=shows)

    await writer.write_until(lambda: len(writer.server.writes) >= 19)

    assert "".join(writer.server.messages) == "abcml" + "abc" * 5
    assert not list(writer._first_due._items) + list(writer._rewrites_due._items)


@timeless.scenario
async def test_who_is_gone_leaves_nothing_behind() -> None:
    """A crowd that goes while its first condition is written is not remembered until others wait."""
    writer, namespaces = StatusWriting(), numbered("n", range(200))

    async def all_go() -> None:
        for namespace in namespaces:
            writer.pod_left(f"{namespace}-p")

    for namespace in namespaces:
        writer.on("p", all_go, namespace=namespace)
        writer.refuse_new("p", namespace=namespace)
    await writer.write_until(lambda: writer.server.writes and not writer._first_due)

    assert len(writer.server.writes) == 1


# ---------------------------------------------------------------- a server in trouble


@pytest.mark.parametrize(
    ("trouble", "tries"),
    [
        pytest.param(error(503), 3, id="503: again"),
        pytest.param(error(429), 3, id="429: again"),
        pytest.param(reset(), 3, id="reset: again"),
        pytest.param(error(409), 3, id="409: again"),
        pytest.param(error(401), 3, id="401: again"),
        pytest.param(error(404), 1, id="404: never"),
        pytest.param(errors.AmbiguousNotFound(404, "no backend"), 3, id="a proxy's 404: again"),
        pytest.param(error(403), 1, id="403: never"),
        pytest.param(error(422), 1, id="422: never"),
        pytest.param(errors.Oversized(500, "etcdserver: request is too large"), 1, id="too large: never"),
    ],
)
@timeless.scenario
async def test_a_write_that_failed(trouble: errors.ClientError, tries: int) -> None:
    """What may pass is tried again; what will not is dropped, and nothing else waits behind it."""
    writer = StatusWriting()
    writer.on("p", trouble, trouble)
    writer.refuse_new("p")

    await writer.write_until(lambda: not writer._due)

    assert len(writer.server.writes) == tries


@timeless.scenario
async def test_everybodys_trouble_is_tried_with_one_pod() -> None:
    """While the server is away not every waiting pod is tried, and its own wish for patience is kept."""
    writer = StatusWriting()
    writer.on("p0", error(429, retry_after=3.0))
    writer.refuse_new(*numbered("p", range(20)))

    await writer.write_until(lambda: not writer._due)

    moments = [write.moment for write in writer.server.writes]
    assert len(moments) == 21
    assert moments[:2] == [0.0, pytest.approx(3.0)]


@timeless.scenario
async def test_what_comes_in_meanwhile_is_written_without_a_pause() -> None:
    """A pause is for what could not be written; whoever is judged while others are told is told next."""
    writer = StatusWriting()
    writer.refuse_new("early")
    async with timeless.beside(writer.run()):
        await asyncio.sleep(0)  # Its write is under way.
        writer.refuse_new("late")
        await writer.until_settled()

    assert len(writer.server.writes) == 2
    assert writer.server.writes[-1].moment < pod_status.RETRY_SECONDS


@timeless.scenario
async def test_who_is_stuck_delays_nobody_and_goes_on_with_its_next_revision() -> None:
    """A condition on a revision that has passed waits for the next one; others are told meanwhile."""
    writer = StatusWriting()
    writer.on("moving", error(409))
    writer.refuse_new("moving", message="first")
    async with timeless.beside(writer.run()):
        await writer.server.until(1)
        writer.refuse_new("newcomer", message="second")
        await writer.server.until(2)
        assert "ml-moving" in writer._due

        writer.see("moving", version="6")
        await writer.until_settled()

    assert writer.server.messages == ["first", "second", "first"]
    assert writer.server.writes[-1].moment < pod_status.RETRY_SECONDS


# ---------------------------------------------------------------- what writes cost

# A write of a condition costs the API server the whole pod, so large pods are not told at the pace of others.


@timeless.scenario
async def test_large_pods_are_told_anew_at_their_own_pace() -> None:
    """Their first verdict comes at once; news of them keeps within the bytes, and delays nobody else."""
    large = numbered("large", range(40))
    writer = StatusWriting(sizes=dict.fromkeys(large, MIB))
    writer.refuse_new(*large, namespace="mallory")
    writer.see("small", namespace="vic")
    async with timeless.beside(writer.run()):
        await timeless.passing(0.5)
        assert [write.name for write in writer.server.writes] == large
        writer.server.writes.clear()

        for turn in range(100):  # As others' binds come and go, ten a second.
            for name in large:
                writer.refuse(name, f"after {turn} binds", namespace="mallory")
            writer.refuse("small", f"after {turn} binds", namespace="vic")
            await timeless.passing(0.1)

    names = [write.name for write in writer.server.writes]
    rewritten = MIB * (len(names) - names.count("small"))
    most = condition_budget.NAMESPACE_BYTES * (100 * 0.1 + condition_budget.AT_ONCE_SECONDS) + MIB
    assert 0.5 * most <= rewritten <= most
    assert names.count("small") == 100
    assert len({*names}) > 8  # They take turns.


@timeless.scenario
async def test_many_namespaces_together_keep_within_the_bytes_of_all() -> None:
    """What one namespace may not write, forty may not either; each of them has its turn."""
    pods_ = numbered("p", range(40))
    writer = StatusWriting(sizes=dict.fromkeys(pods_, MIB))
    for name in pods_:
        writer.see(name, namespace=name)
    async with timeless.beside(writer.run()):
        for turn in range(100):
            for name in pods_:
                writer.refuse(name, f"after {turn} binds", namespace=name)
            await timeless.passing(0.2)

    names = [write.name for write in writer.server.writes]
    rewritten = MIB * (len(names) - len(pods_))
    most = condition_budget.BYTES * (100 * 0.2 + condition_budget.AT_ONCE_SECONDS) + MIB
    assert 0.5 * most <= rewritten <= most
    assert min(map(names.count, pods_)) >= 2


@timeless.scenario
async def test_a_write_that_failed_is_not_paid_for() -> None:
    """The server stored nothing, so the next try may come at once."""
    budget = condition_budget.ConditionBudget(timeless.clock())
    budget.spend("ml", 3 * MIB)
    assert budget.exhausted("ml")
    assert not budget.exhausted("another")
    budget.spend("ml", -3 * MIB)
    assert not budget.exhausted("ml")


@timeless.scenario
async def test_namespaces_that_owe_nothing_are_forgotten() -> None:
    """However many there were, only so many are remembered."""
    budget = condition_budget.ConditionBudget(timeless.clock())
    for namespace in numbered("ml-", range(10 * condition_budget.MOST_REMEMBERED)):
        budget.spend(namespace, 1)
    assert len(budget._budgets) <= condition_budget.MOST_REMEMBERED
