"""Which terms mean a pod is known at once, however terms come and go, and no namespace brings very many."""

from unittest import mock

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_operator.scheduling import pod_terms
from berth_operator.scheduling.nodes import facts

NAMESPACES = ("a", "b")
LABELS = ((), (("app", "web"),), (("app", "db"), ("tier", "1")))
HOST = "kubernetes.io/hostname"


def term(app: str, namespace: str = "a", key: str = HOST) -> facts.PodTerm:
    """Return a term about the pods of an app."""
    return facts.PodTerm(facts.PodSelector((namespace,), (facts.LabelExpression("app", "In", (app,)),)), key)


TERMS = tuple(term(app, namespace) for app in ("web", "db") for namespace in NAMESPACES)


def index() -> pod_terms.TermIndex[facts.PodTerm]:
    """Return an index without terms."""
    return pod_terms.TermIndex(lambda one: one, pod_terms.all_of_namespaces)


def meaning(found: pod_terms.TermIndex[facts.PodTerm], namespace: str, labels: facts.Labels) -> set[str]:
    """Return the apps of the terms that mean a pod."""
    terms = found.meaning(namespace, labels, lambda selector: namespace in selector.namespaces)
    return {
        value for one in terms for expression in one.selector.expressions or () for value in expression.values
    }


@hypothesis.given(st.lists(st.tuples(st.sampled_from(TERMS), st.booleans(), st.booleans()), max_size=30))
@pytest.mark.parametrize("most", [1, pod_terms.MOST_IN_AN_INDEX], ids=["many indexes", "one"])
def test_answers_follow_terms_that_come_and_go(
    most: int, steps: list[tuple[facts.PodTerm, bool, bool]]
) -> None:
    """An answer that was asked for before is the one that somebody gets who asks for the first time."""
    followed, there = index(), set[facts.PodTerm]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pod_terms, "MOST_IN_AN_INDEX", most)
        for one, comes, asked in steps:
            if comes == (one in there):
                continue
            followed.count("uid", "a", (one,), 0, 1 if comes else -1)
            there ^= {one}
            fresh = index()
            for other in there:
                fresh.count("uid", "a", (other,), 0, 1)
            for namespace in NAMESPACES if asked else ():
                for labels in LABELS:
                    assert meaning(followed, namespace, labels) == meaning(fresh, namespace, labels)


def test_a_new_term_alone_is_compared() -> None:
    """Whoever has one term come and go has nobody compare all the others again."""
    found, compared = index(), list[facts.PodSelector]()
    for at in range(100):
        found.count(f"uid-{at}", "a", (term(f"app-{at}"),), 0, 1)

    def is_about(selector: facts.PodSelector) -> bool:
        compared.append(selector)
        return True

    labels = (("app", "new"),)
    found.count("new", "a", (term("new"),), 0, 1)
    found.meaning("a", labels, is_about)
    before = len(compared)
    found.count("newer", "a", (term("newer"),), 0, 1)
    found.meaning("a", (("app", "newer"),), is_about)
    found.count("newer", "a", (term("newer"),), 0, -1)
    found.meaning("a", labels, is_about)

    assert (before, len(compared)) == (101, 102)


def test_terms_whose_expressions_labels_do_not_meet_are_not_compared() -> None:
    """However many there are, a pod with labels of its own costs what its labels do."""
    found, is_about = index(), mock.Mock(return_value=True)
    for at in range(100):
        found.count(f"uid-{at}", "a", (term(f"app-{at}"),), 0, 1)

    assert not found.meaning("a", (("app", "none"),), is_about)
    is_about.assert_not_called()


def test_terms_that_name_too_much_count_as_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are compared with each pod, however few they are; whoever names less has room for more."""
    values = tuple(f"v{at}" for at in range(20))
    long = (facts.LabelExpression(key, "NotIn", values) for key in ("x", "y"))
    one, other = (facts.PodTerm(facts.PodSelector(("a",), (asked,)), HOST) for asked in long)
    short, own = term("3"), facts.PodTerm(facts.PodSelector(("a",), ()), "")
    most = sum(each.selector.size for each in (one, short, own))
    monkeypatch.setattr(pod_terms, "MOST_NAMED", most)
    found = index()

    found.count("first", "a", (one,), 0, 1)
    found.count("second", "a", (other, short), 1, 1)
    both = set(found._rows)
    found.count("first", "a", (one,), 0, -1)
    found.count("third", "a", (other,), 2, 1)
    last = set(found._rows)

    assert (both, last) == ({one, short, own}, {short, own, other})


def test_a_namespace_that_brings_too_many_terms_says_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """One term stands for all others, of whom they concern; nobody else's terms are the fewer for it."""
    monkeypatch.setattr(pod_terms, "MOST_TERMS", 3)
    found, own = index(), facts.PodTerm(facts.PodSelector(("a",), ()), "")
    everybody = facts.PodTerm(facts.PodSelector((), (), ()), "")
    known = [term(app) for app in "123"]

    found.count("first", "a", tuple(known), 0, 1)
    found.count("second", "a", (known[0], term("4"), term("5")), 1, 1)
    found.count("third", "a", (term("6", "b"),), 2, 1)
    found.count("other", "b", (term("7", "b"),), 3, 1)

    assert set(found._rows) == {*known, own, everybody, term("7", "b")}
    assert (dict(found.rows(own)), dict(found.rows(known[0]))) == ({1: 1}, {0: 1, 1: 1})
    for uid, terms, row in (
        ("second", (known[0], term("4"), term("5")), 1),
        ("first", tuple(known), 0),
        ("third", (term("6", "b"),), 2),
    ):
        found.count(uid, "a", terms, row, -1)
    assert set(found._rows) == {term("7", "b")}
