"""Cases in which Berth once differed from kube-scheduler, or could have."""

import pytest

from parity import comparing, corpus, own, scenes, stock

CASES = {path.stem: corpus.read(path) for path in corpus.files()}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_case_has_the_recorded_answer(case: corpus.Case) -> None:
    """Berth answers what kube-scheduler answered when the case was written."""
    question = corpus.with_identities(case.question)
    berth = own.Berth(question.cluster)

    found = berth.answer(question.pod)

    assert found == case.stock, case.title


async def test_kube_scheduler_still_answers_so(oracle: stock.Stock) -> None:
    """What is recorded is what both answer on a real API server."""
    for case in CASES.values():
        found = await comparing.compare_one(oracle, case.question)

        assert found is not None, case.title
        assert (scenes.expected(found.stock, found.question), found.differs) == (case.stock, False), (
            case.title
        )
