"""Pods by their labels: what a selector counts is what a look at each pod says, whatever comes and goes."""

import collections
import tracemalloc
from typing import Final, NamedTuple
from unittest import mock

import hypothesis
from hypothesis import strategies as st

from berth_operator.scheduling import label_index, pod_index
from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.label_index import LabelIndex
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.nodes import labels as node_labels
from berth_operator.scheduling.nodes.facts import LabelExpression, Labels
from support import builders

KEYS: Final = ("app", "rev", "tier")
VALUES: Final = ("", "1", "2")
UIDS: Final = ("a", "b", "c", "d", "e", "f")
NAMESPACES: Final = ("ml", "red", "blue")
ROWS: Final = 4


def no_labels() -> node_labels.Labels:
    """Return the labels of no nodes."""
    return node_labels.Labels(())


class Pod(NamedTuple):
    """What an index has to know of a pod."""

    namespace: str
    labels: Labels
    row: int
    leaving: bool


class Question(NamedTuple):
    """What an index is asked."""

    namespaces: list[str] | None
    expressions: tuple[LabelExpression, ...]
    exclude_leaving: bool


keys = st.sampled_from(KEYS)
labels = st.dictionaries(keys, st.sampled_from(VALUES)).map(lambda found: tuple(sorted(found.items())))
expressions = st.builds(
    LabelExpression,
    keys,
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Unheard"]),
    st.lists(st.sampled_from(VALUES), max_size=3, unique=True).map(tuple),
)
selectors = st.lists(expressions, max_size=3).map(tuple)
some_namespaces = st.lists(st.sampled_from((*NAMESPACES, "none")), unique=True)
questions = st.builds(Question, st.none() | some_namespaces, selectors, st.booleans())
pods = st.builds(Pod, st.sampled_from(NAMESPACES), labels, st.integers(0, ROWS - 1), st.booleans())
# A pod comes, is another one than before, or is gone.
changes = st.tuples(st.sampled_from(UIDS), st.none() | pods)


def hold_of(uid: str, pod: Pod) -> Hold:
    """Return a pod on a node."""
    title, node = f"{pod.namespace}/{uid}", f"n{pod.row}"
    return Hold(uid=uid, title=title, node=node, labels=pod.labels, leaving=pod.leaving)


def counted(index: LabelIndex, question: Question) -> list[int]:
    """Return what an index answers."""
    namespaces, selector, exclude_leaving = question
    return list(index.counts(namespaces, selector, ROWS, exclude_leaving=exclude_leaving))


def is_meant(pod: Pod, question: Question) -> bool:
    """Whether a pod is to be counted, by a look at it."""
    about = question.namespaces is None or pod.namespace in question.namespaces
    selects = pod_index.label_matcher(question.expressions)
    return about and selects(dict(pod.labels)) and not (question.exclude_leaving and pod.leaving)


@hypothesis.given(st.lists(st.tuples(changes, questions), max_size=30))
def test_a_selector_counts_whom_each_pods_labels_say(
    steps: list[tuple[tuple[str, Pod | None], Question]],
) -> None:
    """It is asked after each change, and pods change their labels, too."""
    index, there = LabelIndex(), dict[str, Pod]()
    for (uid, found), question in steps:
        if uid in there:
            index.remove(hold_of(uid, there.pop(uid)))
        if found is not None:
            there[uid] = found
            index.add(hold_of(uid, found), found.row)
        rows = collections.Counter(one.row for one in there.values() if is_meant(one, question))
        assert counted(index, question) == [rows[row] for row in range(ROWS)]
        assert set(index.namespaces) == {one.namespace for one in there.values()}


def test_labels_that_are_gone_are_forgotten() -> None:
    """Otherwise the memory of many pods with labels of their own would never come back."""
    index = LabelIndex()
    holds = [hold_of(uid, Pod("ml", (("app", "1"), ("name", uid)), 0, leaving=False)) for uid in UIDS]
    asked = [
        Question([namespace], (LabelExpression(key, operator, ("1",)),), exclude_leaving=False)
        for namespace in ("ml", "none")
        for key in ("app", "name", "none")
        for operator in ("In", "Exists")
    ]
    for _ in range(3):
        for hold in holds:
            index.add(hold, 0)
        assert repr(index) == "<LabelIndex: 6 groups, 7 labels, 2 keys>"
        assert [sum(counted(index, one)) for one in asked] == [6, 6, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0]
        for hold in holds:
            index.remove(hold)
        assert repr(index) == "<LabelIndex: 0 groups, 0 labels, 0 keys>"
        assert not any(sum(counted(index, one)) for one in asked)
        assert not (index.namespaces or index._places)
        assert not (index._uids or index._group_of or index._row_of or index._is_leaving)
        assert len(index._namespace_of) == len(UIDS)


def test_which_pods_have_a_key_is_kept_as_pods_come_and_go() -> None:
    """Each of thousands of pods may have a value of its own: nobody goes through them all again and again."""
    index = LabelIndex()
    asked = [
        Question(None, (LabelExpression("name", operator, ()),), exclude_leaving=False)
        for operator in ("Exists", "DoesNotExist")
    ]
    go_through = label_index._ByValue.all_groups
    with mock.patch.object(label_index._ByValue, "all_groups", autospec=True, side_effect=go_through) as gone:
        for at in range(100):
            index.add(hold_of(f"u{at}", Pod("ml", (("name", str(at)),), 0, leaving=False)), 0)
            assert [sum(counted(index, one)) for one in asked] == [at + 1, 0]
        assert gone.call_count < 15, "again only where there is no room for more groups"


def test_keys_that_were_asked_for_have_a_limit() -> None:
    """Beyond it all are forgotten, and gone through again when somebody asks."""
    index = LabelIndex()
    index.add(hold_of("a", Pod("ml", (("app", "1"),), 0, leaving=False)), 0)
    for at in range(label_index.MOST_KEYS_ASKED + 1):
        exists = LabelExpression(f"key-{at}", "DoesNotExist", ())
        assert sum(counted(index, Question(None, (exists,), exclude_leaving=False))) == 1
    assert len(index._groups_with) == 1


class CountedRows(dict[str, int]):
    """The rows of nodes; it is counted how often one is looked up."""

    looks = 0

    def __getitem__(self, name: str) -> int:
        self.looks += 1
        return super().__getitem__(name)


def test_a_new_selector_looks_at_no_single_pod() -> None:
    """Pods are sorted by their labels when they come, and selectors are answered from that."""
    rows = CountedRows({f"n{row}": row for row in range(ROWS)})
    holds = [
        hold_of(f"u{at}", Pod("ml", (("name", str(at)),), at % ROWS, leaving=False)) for at in range(100)
    ]
    index = pod_index.PodIndex(rows, lambda: holds, no_labels)
    for one in holds:
        index.add(one)
    looks = rows.looks
    for at in range(3):
        expressions = (LabelExpression("name", "NotIn", (str(at),)),)
        key = pod_index.CounterKey((facts.PodSelector(("ml",), expressions),))
        assert sum(index.counts(key, ROWS)) == 99
    assert rows.looks == looks


def test_a_selector_of_namespaces_is_read_once_for_all_of_them() -> None:
    """There may be thousands of namespaces, and 64 selectors of a pod that differ in this."""
    named = [Pod(f"team-{at}", (("app", "1"),), at % ROWS, leaving=False) for at in range(50)]
    holds = [hold_of(f"u{at}", one) for at, one in enumerate(named)]
    index = pod_index.PodIndex({f"n{row}": row for row in range(ROWS)}, lambda: holds, no_labels)
    for one in holds:
        index.add(one)
    index.set_namespace("team-1", {"tier": "1"})
    has_tier = (LabelExpression("tier", "Exists", ()),)
    key = pod_index.CounterKey((facts.PodSelector(("team-2", "none"), (), has_tier),))
    with mock.patch.object(pod_index, "label_matcher", wraps=pod_index.label_matcher) as read:
        assert list(index.counts(key, ROWS)) == [0, 1, 1, 0]
        assert [one.args for one in read.call_args_list].count((has_tier,)) == 1


def test_labels_that_one_pod_alone_has_take_little_memory() -> None:
    """Whoever may create pods may give each a score of keys of its own: tens of thousands must fit."""
    pods = [
        builders.hold(f"p{at}", labels=tuple((f"key-{at}-{number}", "x") for number in range(20)))
        for at in range(500)
    ]
    index = LabelIndex()

    tracemalloc.start()
    for pod in pods:
        index.add(pod, 0)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert size < 500 * 20 * 160
