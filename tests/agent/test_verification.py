"""Whether what a pod holds is what it was given follows from what the sources say, by a table."""

import time

import pytest

from berth_agent.gpupods import desired, verification, watched_pod
from berth_agent.gpupods.verification import Evidence
from berth_agent.kubelet import device_ids
from berth_crds import allocation, schema_limits, wire
from support import nodes

CARDS = (
    wire.Card(uuid="GPU-a", type="gpu", minor=0, memory=16),
    wire.Card(uuid="GPU-b", type="gpu", minor=1, memory=16),
    wire.Card(
        uuid="GPU-c",
        type="gpu",
        minor=2,
        memory=40,
        mig=wire.Mig(True, tuple(wire.MigInstance(f"MIG-{n}", "1g.5gb", 5, gi=n, ci=0) for n in (1, 2))),
    ),
)
ALLOCATABLE = device_ids.allocatable_devices(CARDS)
ONE, TWO = {"main": ("GPU-a",)}, {"main": ("GPU-a",), "side": ("GPU-b",)}
BOTH, SLICE = {"main": ("GPU-a", "GPU-b")}, {"main": ("MIG-1",)}
AWAY = "Nobody answers."


@pytest.mark.parametrize(
    ("given", "held", "status"),
    [
        pytest.param(("GPU-a",), ("GPU-b",), "True", id="another card of an init container"),
        pytest.param(("GPU-a",), ("GPU-a",), "True", id="as given"),
        pytest.param(("GPU-a",), ("GPU-c",), "False", id="a card of nobody"),
        pytest.param(("GPU-a",), ("GPU-a", "GPU-b"), "False", id="more than it was given"),
    ],
)
def test_a_container_may_have_any_card_of_its_init_containers(
    given: tuple[str, ...], held: tuple[str, ...], status: str
) -> None:
    """The kubelet gives them on in no order, and asks nobody which."""
    of_init = ("GPU-a", "GPU-b")
    found = verification.verify(
        "Running", {"init": of_init, "main": given}, Evidence({"main": held}), ALLOCATABLE, passed_on=of_init
    )

    assert found.status == status


@pytest.mark.parametrize(
    ("phase", "given", "evidence", "said"),
    [
        pytest.param("Running", ONE, Evidence(ONE), "True Agreed", id="the kubelet agrees"),
        pytest.param("Running", ONE, Evidence({}, ONE), "True Agreed", id="the driver agrees"),
        pytest.param(
            "Running", BOTH, Evidence({"main": ("GPU-b", "GPU-a")}), "True Agreed", id="in any order"
        ),
        pytest.param("Running", BOTH, Evidence({}, ONE), "True Agreed", id="a card is idle"),
        pytest.param(
            "Running", TWO, Evidence(ONE), "True Agreed", id="one container has its card by its env"
        ),
        pytest.param("Running", TWO, Evidence({}, {"": ("GPU-b",)}), "True Agreed", id="unknown container"),
        pytest.param("Running", SLICE, Evidence(SLICE), "True Agreed", id="the instance"),
        pytest.param(
            "Running", SLICE, Evidence({}, {"main": ("GPU-c",)}), "True Agreed", id="card for instance"
        ),
        pytest.param("Pending", ONE, Evidence(ONE), "True Agreed", id="agreed before it runs"),
        pytest.param(
            "Running", ONE, Evidence(ONE, missing=AWAY), "True Agreed", id="last word of a lost kubelet"
        ),
        pytest.param("Running", ONE, Evidence({"main": ("GPU-b",)}), "False Mismatch", id="another card"),
        pytest.param("Running", ONE, Evidence(BOTH), "False Mismatch", id="a card too many"),
        pytest.param("Running", BOTH, Evidence(ONE), "False Mismatch", id="a card too few"),
        pytest.param(
            "Running", ONE, Evidence({"side": ("GPU-a",)}), "False Mismatch", id="another container"
        ),
        pytest.param("Running", ONE, Evidence({"main": ("GPU-x",)}), "False Mismatch", id="an unknown card"),
        pytest.param(
            "Running", SLICE, Evidence({"main": ("MIG-2",)}), "False Mismatch", id="another instance"
        ),
        pytest.param("Running", SLICE, Evidence({"main": ("GPU-c",)}), "False Mismatch", id="the whole card"),
        pytest.param(
            "Running", ONE, Evidence({}, {"main": ("GPU-b",)}), "False Mismatch", id="runs elsewhere"
        ),
        pytest.param(
            "Running", TWO, Evidence({}, {"side": ("GPU-a",)}), "False Mismatch", id="on a neighbour's"
        ),
        pytest.param(
            "Running", ONE, Evidence({}, {"": ("GPU-b",)}), "False Mismatch", id="the pod elsewhere"
        ),
        pytest.param(
            "Running", ONE, Evidence(ONE, {"main": ("GPU-b",)}), "False Mismatch", id="sources differ"
        ),
        pytest.param("Running", {}, Evidence({}, ONE), "False Mismatch", id="given nothing"),
        pytest.param(
            "Pending", ONE, Evidence({"main": ("GPU-b",)}), "False Mismatch", id="wrong from the start"
        ),
        pytest.param("Running", ONE, Evidence(), "Unknown NotSeen", id="nobody says anything"),
        pytest.param(
            "Running", ONE, Evidence(missing=AWAY), "Unknown SourceFailed", id="the kubelet is away"
        ),
        pytest.param("Pending", ONE, Evidence(), "Unknown NotRunning", id="it does not run"),
        pytest.param("Unknown", ONE, Evidence(), "Unknown PhaseUnknown", id="nobody knows whether it runs"),
        pytest.param("Succeeded", ONE, Evidence(BOTH), "Unknown Finished", id="ended, still listed"),
        pytest.param("Failed", ONE, Evidence(ONE, BOTH), "Unknown Finished", id="failed, still listed"),
    ],
)
def test_verdict(phase: str, given: verification.ByContainer, evidence: Evidence, said: str) -> None:
    """Only a source that contradicts makes a mismatch, and only one that speaks an agreement."""
    found = verification.verify(phase, given, evidence, ALLOCATABLE)

    assert f"{found.status} {found.reason}" == said


def test_mismatch_names_both() -> None:
    """The message says of each container what it was given, what it holds, and who says so."""
    found = verification.verify(
        "Running", ONE, Evidence({"main": ("GPU-b",), "side": ("GPU-a",)}, {"": ("GPU-c",)}), ALLOCATABLE
    )

    assert found.message == (
        "container main was given GPU-a and holds GPU-b (podresources); "
        "container side was given nothing and holds GPU-a (podresources); "
        "the pod was given GPU-a and holds GPU-c (nvml)"
    )


def test_message_fits_and_is_plain() -> None:
    """However much a container holds, and whatever its ids look like, the message can be written."""
    held = tuple(f"\n{number}-{'x' * 60}" for number in range(100))

    message = verification.verify("Running", {}, Evidence({"main": held}), ALLOCATABLE).message

    assert len(message) == schema_limits.LONGEST_MESSAGE
    assert message.isascii()
    assert "\n" not in message


def test_name_of_a_container_is_one_plain_word() -> None:
    """A source may call a container anything; the message stays a line."""
    evidence = Evidence({"a\x1b[2J\n" + "b" * 1000: ("GPU-a",)})

    message = verification.verify("Running", {}, evidence, ALLOCATABLE).message

    assert message.startswith(r"container a\x1b[2J bbb")
    assert message.isprintable()
    assert len(message) < 200


def test_many_ids_are_compared_at_once() -> None:
    """However many ids a container has, to compare them takes no longer than to read them."""
    many = tuple(f"GPU-{number}" for number in range(50_000))
    started = time.process_time()

    found = verification.verify(
        "Running", {"main": many}, Evidence({"main": many}, {"main": many[:500]}), ALLOCATABLE
    )

    assert found.reason == "Agreed"
    assert time.process_time() - started < 20.0


def test_a_container_may_hold_what_an_init_container_was_given() -> None:
    """The kubelet gives it on; a sidecar keeps its own."""
    first, second = (allocation.Share(f"GPU-{name}", minor, 100, 16) for minor, name in enumerate("ab"))
    given = allocation.of("n1", {"init": {"gpu": [first, second]}, "main": {"gpu": [first]}})
    node_cards = desired.NodeCards("n1", desired.gpus_by_minor(CARDS))

    def verified(init: watched_pod.Container) -> str:
        spec = watched_pod.PodSpec("n1", (watched_pod.Container("main"),), (init,))
        pod = watched_pod.Pod(wire.Meta("p", "ns", "u"), spec, watched_pod.PodStatus("Running"))
        published = desired.spec(pod, given, node_cards)
        held = Evidence({"main": ("GPU-b",)})
        found = desired.status(pod, published, wire.GpuPodStatus(), node_cards, evidence=held, now=nodes.NOON)
        return found.conditions[0].status

    assert verified(watched_pod.Container("init")) == "True"
    assert verified(watched_pod.Container("init", restart_policy="Always")) == "False"
