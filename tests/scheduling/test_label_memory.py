"""What is remembered of pods by their labels stays within its bounds of number and memory."""

from typing import Final

import pytest

from berth_operator.scheduling import label_memory

ONE_LABEL: Final = 2 * label_memory.BYTES_PER_LABEL


def identity(at: int, count: int = 1) -> label_memory.Identity:
    """Return a namespace with so many labels."""
    return "ml", tuple((f"key-{one}", str(at)) for one in range(count))


def memory() -> label_memory.LabelMemory[range]:
    """Return a memory of ranges, with as many parts as these have numbers."""
    return label_memory.LabelMemory(len)


def test_large_answers_take_a_bounded_part_of_memory() -> None:
    """They are far fewer than small ones may be."""
    found, most = memory(), 0
    for at in range(1000):
        found.put(identity(at), range(1024))
        assert found.bytes <= label_memory.MOST_BYTES
        assert found.get(identity(at)) == range(1024)
        most = max(most, len(found))

    assert most == label_memory.MOST_BYTES // (1024 * label_memory.BYTES_PER_PART + ONE_LABEL)


def test_many_labels_count_as_well() -> None:
    """Though nothing was found for pods that have them; those with very many are not remembered."""
    found, most = memory(), 0
    for at in range(1000):
        found.put(identity(at, label_memory.MOST_LABELS), range(0))
        found.put(identity(at, label_memory.MOST_LABELS + 1), range(0))
        most = max(most, len(found))

    assert found.get(identity(999, label_memory.MOST_LABELS + 1)) is None
    assert most == label_memory.MOST_BYTES // (label_memory.BYTES_PER_LABEL * (1 + label_memory.MOST_LABELS))


def test_so_many_answers_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond that all are forgotten."""
    monkeypatch.setattr(label_memory, "MOST_REMEMBERED", 3)
    found = memory()
    lengths = []
    for at in range(5):
        found.put(identity(at), range(0))
        lengths.append(len(found))

    assert lengths == [1, 2, 3, 1, 2]


def test_another_answer_replaces_the_one_before() -> None:
    """Its parts count in place of those of the former."""
    found = memory()
    for parts in (1000, 10):
        found.put(identity(0), range(parts))

    assert (len(found), found.get(identity(0))) == (1, range(10))
    assert found.bytes == ONE_LABEL + 10 * label_memory.BYTES_PER_PART
    found.clear()
    assert (len(found), found.bytes) == (0, 0)
