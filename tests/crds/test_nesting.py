"""However deep a value is nested, the rest of its object is read."""

import json
import subprocess
import sys
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies

from berth_crds import nesting

PROGRAMS = ("berth_operator", "berth_agent")

words = strategies.text(strategies.sampled_from('ab"\\[]{},: \n\u00e9')) | strategies.text()
values = strategies.recursive(
    strategies.none() | strategies.booleans() | strategies.integers(-9, 9) | words,
    lambda inner: strategies.lists(inner) | strategies.dictionaries(words, inner),
    max_leaves=30,
)


@pytest.fixture
def flat(monkeypatch: pytest.MonkeyPatch) -> int:
    """Make few levels many."""
    monkeypatch.setattr(nesting, "KEPT_LEVELS", 2)
    return nesting.KEPT_LEVELS


def emptied(value: Any, levels: int) -> Any:
    """Empty what is nested deeper, in the plain way."""
    if isinstance(value, list):
        return [emptied(below, levels - 1) for below in value] if levels > 0 else []
    if isinstance(value, dict):
        return {key: emptied(below, levels - 1) for key, below in value.items()} if levels > 0 else {}
    return value


@hypothesis.given(value=values, plain=strategies.booleans(), indent=strategies.sampled_from([None, 1]))
@hypothesis.settings(suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture])
def test_only_what_is_nested_deeper_is_cut(flat: int, value: Any, plain: bool, indent: int | None) -> None:  # noqa: FBT001
    """Whatever words, keys and blanks there are."""
    text = json.dumps(value, ensure_ascii=plain, indent=indent).encode("utf-8", "surrogatepass")

    assert json.loads(nesting.cut_deep_values(text)) == emptied(value, flat)


@hypothesis.given(value=values, kept=strategies.floats(0, 1, exclude_max=True))
@hypothesis.settings(suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture])
@pytest.mark.usefixtures("flat")
def test_half_a_text_stays_half_a_text(value: Any, kept: float) -> None:
    """A text that broke off within a list or an object is not made whole."""
    text = json.dumps([value]).encode()
    half = text[: int(len(text) * kept)]

    with pytest.raises(json.JSONDecodeError):
        json.loads(nesting.cut_deep_values(half))


@hypothesis.given(text=strategies.binary() | strategies.text('"\\[]{}a').map(str.encode))
@hypothesis.settings(suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture])
@pytest.mark.usefixtures("flat")
def test_any_bytes_are_cut_without_an_error(text: bytes) -> None:
    """What is no JSON is for the reader to refuse."""
    assert len(nesting.cut_deep_values(text)) <= len(text)


def test_what_is_not_deep_is_as_it_was() -> None:
    """Nothing of our kinds is cut."""
    level = b'{"a": [' * (nesting.KEPT_LEVELS // 2) + b"1" + b"]}" * (nesting.KEPT_LEVELS // 2)

    assert nesting.cut_deep_values(level) == level


@pytest.mark.parametrize(
    ("text", "brackets"),
    [
        pytest.param(b"[" * 2000, 2000, id="no end"),
        pytest.param(b'"' * 2000, 0, id="quotes"),
        pytest.param(b'"\\"' * 1000, 0, id="escaped quotes"),
        pytest.param(b"\\" * 2000, 0, id="escapes"),
        pytest.param(b'["' + b"{" * 2000, 1, id="a word without an end"),
    ],
)
def test_each_word_is_looked_at_once(text: bytes, brackets: int) -> None:
    """What stands in a word is no bracket, even where nothing ends it: it is passed over in one step."""
    assert len(list(nesting._brackets(text))) == brackets


# ---------------------------------------------------------------- programs

READERS = """
import json, sys, threading
import msgspec
from berth_crds import nesting

nesting.raise_limits()
deep = json.loads("[" * 500 + "]" * 500)
text = b'{"a":' * (nesting.STORED_LEVELS + 50) + b"[]" + b"}" * (nesting.STORED_LEVELS + 50)
lists = b"[" * (nesting.STORED_LEVELS + 50) + b"]" * (nesting.STORED_LEVELS + 50)

class Skipping(msgspec.Struct):
    b: int = 0

def read():
    msgspec.json.decode(text, type=Skipping)
    msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    for one in (text, lists):
        whole = msgspec.json.decode(one)
        assert whole == json.loads(one)
        msgspec.json.encode(whole), json.dumps(whole), repr(whole)
    done.append(threading.current_thread().name)

done = []
read()
thread = threading.Thread(target=read, name="another")
thread.start()
thread.join()
print(*done)
"""


# By a shell: a Python function between fork and exec (`preexec_fn`) may meet the forks that libraries watch.
LIMITED = 'ulimit -S -s "$0" && exec "$@"'


def run(program: str, *, stack: int = nesting.STACK_BYTES) -> str:
    """Run a program whose first thread has a stack of so many bytes, and return what it prints."""
    command = ["sh", "-c", LIMITED, f"{stack // 1024}", sys.executable, "-c", program]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout.strip()


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="nobody can move that limit there")
def test_all_that_a_server_stores_can_be_read_in_every_thread() -> None:
    """Neither what is skipped nor what is kept takes more stack than there is."""
    assert run(READERS) == "MainThread another"


def test_a_small_stack_is_not_overrun() -> None:
    """Where the first thread has too little of it, the limit stays."""
    program = (
        "import sys; from berth_crds import nesting; nesting.raise_limits(); print(sys.getrecursionlimit())"
    )

    assert run(program, stack=nesting.STACK_BYTES // 8) == "1000"


@pytest.mark.parametrize("program", PROGRAMS)
def test_both_programs_allow_it(program: str) -> None:
    """Before anything else, so that all threads have the stack for it."""
    first = f"import sys; from {program} import __main__ as it; sys.argv = ['it', '--help']\n"
    last = "try: it.main()\nexcept SystemExit: print(sys.getrecursionlimit())"

    limit = int(run(first + last).split()[-1])

    assert limit >= nesting.STORED_LEVELS + nesting.SPARE_LEVELS
