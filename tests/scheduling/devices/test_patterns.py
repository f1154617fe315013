"""Patterns for models: they are RE2's, and no pattern that is taken takes long, whatever name it meets."""

import time

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_crds import names
from berth_operator.scheduling.devices import conditions, patterns, requests
from translate import pod_requests

AROUND = f"looks around, which RE2 does not do; write {names.AVOID_MODEL_PATTERN} for what must not match"
LARGE = "is too large once it is compiled; use smaller counts and fewer classes of characters"


TAKEN: dict[str, str] = {
    "a part of a name": "A100",
    "any character": "1070.Ti",
    "a choice and a repetition": "(A100|H100).*80GB",
    "anchors": r"^Tesla-(T|V)\d+$",
    "a flag that holds anyway": "(?i)a100",
    "a group with a name": "(?P<family>A|H)100",
    "sets and what may be missing": "[AH]100-?SXM[45]",
    "special characters as themselves": r"\(R\)|A\+",
    "special characters in a set": "[(*+?|)]",
    "counted repetitions": r"A{1,3}\d{3}",
    "a lazy repetition": "A100.*?GB",
    "a repeated group": "(?:-?(?:SXM|PCIe))*",
    "many choices": "|".join(f"M{at}" for at in range(60)),
}
REFUSED: dict[str, tuple[str, str]] = {
    "looking ahead": ("(?=.*SXM)A100", AROUND),
    "what must not follow": ("^(?!.*PCIe)", AROUND),
    "looking behind": ("(?<=A)100", AROUND),
    "what must not be before": ("(?<!A)100", AROUND),
    "a reference": (r"(A)\1", r"is not a regular expression of RE2: invalid escape sequence: \1"),
    "other flags": ("(?x)A100", "is not a regular expression of RE2: invalid perl operator: (?x"),
    "an open set": ("[A100", "is not a regular expression of RE2: missing ]: [A100"),
    "a parenthesis too many": ("A100)", "is not a regular expression of RE2: unexpected ): A100)"),
    "an absurd number": (
        "A{9999}",
        "is not a regular expression of RE2: invalid repetition size: {9999}",
    ),
    "half a character": ("\ud800", "is not a regular expression of RE2: it is no text"),
    "a long fault": ("(" + "A" * 200, f"is not a regular expression of RE2: missing ): ({'A' * 48}"),
    "many instructions": ("(A?){1000}", LARGE),
    "many large sets": (r"\pL{1000}", LARGE),
    "too long": ("A" * 257, "is longer than 256 characters"),
}


FAULTS = {what: (pattern, "") for what, pattern in TAKEN.items()} | REFUSED


@pytest.mark.parametrize(("pattern", "fault"), FAULTS.values(), ids=FAULTS)
def test_which_patterns_are_taken(pattern: str, fault: str) -> None:
    """What people write for models; what RE2 does not know, or is too large, is refused for a reason."""
    assert patterns.fault(pattern) == fault
    assert (patterns.found(pattern, "A100") is None) is bool(fault)


FOUND: dict[str, tuple[str, bool]] = {
    "in the middle": ("100-sxm", True),
    "in another case": ("a100", True),
    "at the start alone": ("^SXM", False),
    "nowhere": ("H100", False),
}


@pytest.mark.parametrize(("pattern", "there"), FOUND.values(), ids=FOUND.keys())
def test_search(pattern: str, *, there: bool) -> None:
    """A pattern is searched for, wherever in the name, whatever the case."""
    assert patterns.found(pattern, "A100-SXM4-80GB") is there


def test_what_cannot_be_read_leaves_no_model() -> None:
    """It may have meant to exclude a card, so no model is good enough, wanted or to be avoided."""
    assert not conditions.model_meets("A100", requests.OfModels(pattern="("))
    assert not conditions.model_meets("A100", requests.OfModels(avoid_pattern="("))


PIECES = st.sampled_from(
    [
        *"AB.|()?*+{}[]^$\\,-0123é",
        *(
            "(?:",
            "(?=",
            "(?i)",
            "{2}",
            "{1,9}",
            "){10}",
            ")*",
            "[AB]",
            r"\d",
            r"\w",
            r"\pL",
            ".*",
            ".+",
            "A?",
        ),
    ]
)
WORST_NAMES = ("A" * 64, "AB" * 64, "NVIDIA-RTX-PRO-6000-Blackwell-Max-Q-Workstation-Edition")
WORST = {
    "empty choices and sets": "(?:|)" * 17 + "[À-ɏa-z0-9-]{7}" * 8 + "z",
    "a repeated repetition": "(x+x+)+y",
    "what may be missing": "(?:A?){60}A{60}!",
    "choices in a row": "(?:A|B|AB|BA|.)*" * 8 + "[^z]{20}!",
    "a wide state": "[AB]*A[AB]{40}.*é",
    "counted sets": "(.{1,50}[AB]){6}!",
}
MOST_SECONDS = 3.0  # Of the processor, far more than it takes; an engine that tries all ways takes ages.


def seconds(pattern: str) -> float:
    """Return how long a pattern takes on the worst names, in time of the processor."""
    started = time.process_time()
    for name in WORST_NAMES:
        patterns.found(pattern, name)
    return time.process_time() - started


@pytest.mark.parametrize("pattern", WORST.values(), ids=WORST)
def test_worst_patterns(pattern: str) -> None:
    """What an engine that turns back never ends with is over in a moment, or is not taken."""
    assert seconds(pattern) < MOST_SECONDS


@pod_requests.PROPERTY
@hypothesis.given(st.lists(PIECES, max_size=40).map("".join))
def test_no_pattern_takes_long(pattern: str) -> None:
    """Whatever the pattern, it is judged, and tried on any name, in a moment."""
    assert seconds(pattern) < MOST_SECONDS


@pod_requests.PROPERTY
@hypothesis.given(st.text())
def test_any_text_is_judged(text: str) -> None:
    """Whatever the text, it is taken or there is a reason."""
    assert (patterns.fault(text) == "") == (patterns.found(text, "A100") is not None)
