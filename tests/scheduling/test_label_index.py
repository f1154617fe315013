"""Pods by their labels: what a selector selects is what a look at each pod says, whatever comes and goes."""

from typing import Final

import hypothesis
from hypothesis import strategies as st

from berth_operator.scheduling import pod_index
from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.label_index import LabelIndex
from berth_operator.scheduling.nodes.facts import LabelExpression, Labels

KEYS: Final = ("app", "rev", "tier")
VALUES: Final = ("", "1", "2")
UIDS: Final = ("a", "b", "c", "d", "e", "f")

keys = st.sampled_from(KEYS)
labels = st.dictionaries(keys, st.sampled_from(VALUES)).map(lambda found: tuple(sorted(found.items())))
expressions = st.builds(
    LabelExpression,
    keys,
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Unheard"]),
    st.lists(st.sampled_from(VALUES), max_size=3, unique=True).map(tuple),
)
selectors = st.lists(expressions, max_size=3).map(tuple)
# A pod comes, has other labels, or is gone.
changes = st.tuples(st.sampled_from(UIDS), st.none() | labels)


def pod(uid: str, labels: Labels) -> Hold:
    """Return a pod on a node."""
    return Hold(uid=uid, title=f"ml/{uid}", node="n1", labels=labels)


@hypothesis.given(st.lists(st.tuples(changes, selectors), max_size=30))
def test_a_selector_selects_whom_each_pods_labels_say(
    steps: list[tuple[tuple[str, Labels | None], tuple[LabelExpression, ...]]],
) -> None:
    """It is asked after each change, and pods change their labels, too."""
    index, pods = LabelIndex(), dict[str, Hold]()
    for (uid, found), selector in steps:
        if uid in pods:
            index.remove(pods.pop(uid))
        if found is not None:
            pods[uid] = pod(uid, found)
            index.add(pods[uid])
        selects = pod_index.label_matcher(selector)
        wanted = {uid for uid, hold in pods.items() if selects(dict(hold.labels))}
        assert {hold.uid for hold in index.selected(selector)} == wanted
        assert bool(index) == bool(pods)


def test_a_pod_takes_the_place_of_the_one_with_its_uid() -> None:
    """Whoever is told of a pod is told of its newest state."""
    index = LabelIndex()
    index.add(pod("a", (("app", "1"),)))
    index.add(later := pod("a", (("app", "1"),)))
    assert [id(one) for one in index.selected(())] == [id(later)]


def test_labels_that_are_gone_are_forgotten() -> None:
    """Otherwise the memory of many pods with labels of their own would never come back."""
    index, holds = LabelIndex(), [pod(uid, (("name", uid), ("app", "1"))) for uid in UIDS]
    for hold in holds:
        index.add(hold)
    assert repr(index) == "<LabelIndex: 6 groups, 7 labels, 2 keys>"
    for hold in holds:
        index.remove(hold)
    assert repr(index) == "<LabelIndex: 0 groups, 0 labels, 0 keys>"
    assert not list(index.selected((LabelExpression("app", "Exists"),)))
    assert not list(index.selected((LabelExpression("app", "In", ("1",)),)))
