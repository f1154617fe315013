"""Cases in which Berth once differed from kube-scheduler, or could have."""

import pytest

from parity import corpus, own

CASES = {path.stem: corpus.read(path) for path in corpus.files()}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_case_has_the_recorded_answer(case: corpus.Case) -> None:
    """Berth answers what kube-scheduler answered when the case was written."""
    question = corpus.with_identities(case.question)
    berth = own.Berth(question.cluster)

    found = berth.answer(question.pod)

    assert found == case.stock, case.title
