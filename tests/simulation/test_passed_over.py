"""Whose pods are placed, and what is passed over without a word."""

from simulation import simulator


def test_scheduler_names() -> None:
    """With --scheduler-names, pods of those schedulers are placed, and no others."""
    others = [
        simulator.pod(name, schedulerName=name) for name in ("koord-scheduler", "volcano", "berth-scheduler")
    ]
    words = ["--scheduler-names", "koord-scheduler,berth-scheduler"]

    told = simulator.nodes(simulator.place(*simulator.both(), *others, words=words))

    assert told == {"ml/koord-scheduler": "n1", "ml/berth-scheduler": "n1", "ml/volcano": None}


def test_names_that_can_be_none_are_refused() -> None:
    """As an operator with this flag would refuse them."""
    for text, told in (("a b", "'a b' is not one name"), (" , ", "' , ' names no scheduler")):
        answer = simulator.run(
            "place", "-", "--scheduler-names", text, stdin=simulator.written(simulator.pod())
        )

        assert answer.code != 0
        assert told in answer.notes


def test_a_namespace_needs_no_word() -> None:
    """Manifests that can be applied as they are begin with their Namespace: nothing is told of it."""
    there = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml"}}
    answer = simulator.run("place", "-", stdin=simulator.written(there, *simulator.both(), simulator.pod()))

    assert (answer.code, answer.notes) == (0, "")
