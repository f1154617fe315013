"""NVIDIA's error numbers (XIDs), and what each means for the card it is told of.

The numbers and what is to be done about them are those of NVIDIA's catalogue, in our words and
sorted by consequence. Where the catalogue leaves it to further details, which NVML does not
tell, the error is only noted: the drivers that know such errors also say themselves whether
the card needs a reset, and that is read from the card (`signs`).
"""

import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final


class Consequence(enum.Enum):
    """What an error means for the card."""

    PROGRAM = "program"  # A program failed, and the card is as good as before.
    NOTE = "note"  # The card works on; somebody may want to know.
    RESET = "reset"  # The card needs a reset.
    LOST = "lost"  # The card is gone until the node is started anew.


@dataclass(frozen=True, slots=True)
class Xid:
    """One error: what follows from it, and what it is in words."""

    consequence: Consequence
    words: str


def _each(numbers: Iterable[int], consequence: Consequence, words: str) -> Iterator[tuple[int, Xid]]:
    return ((number, Xid(consequence, words)) for number in numbers)


_PROGRAM, _NOTE = Consequence.PROGRAM, Consequence.NOTE
_RESET, _LOST = Consequence.RESET, Consequence.LOST

TABLE: Final[Mapping[int, Xid]] = dict(
    (
        # A program's fault, or a fault that only the program pays for.
        *_each((8,), _PROGRAM, "a program's channel stood still"),
        *_each((11, 25, 32), _PROGRAM, "a program's stream of commands was broken"),
        *_each((13,), _PROGRAM, "a program used a wrong address, register or instruction"),
        *_each((31,), _PROGRAM, "a program used memory that is not mapped"),
        *_each(
            (39, 40, 41, 70, 71, 72, 75, 76, 77, 85, *range(126, 136)), _PROGRAM, "a copy of a program failed"
        ),
        *_each((43,), _PROGRAM, "a program was stopped after its own fault"),
        *_each((45,), _PROGRAM, "a program's channels were cleared away after its end"),
        *_each((60,), _PROGRAM, "the security engine refused a program"),
        *_each((65, 73, 142), _PROGRAM, "an encoder failed a program"),
        *_each((68, 83, 84, 88, 89, 96, 97, 98), _PROGRAM, "a decoder failed a program"),
        *_each((69,), _PROGRAM, "a program asked for something that the card does not have"),
        *_each((80,), _PROGRAM, "a program's commands arrived damaged"),
        *_each((82, *range(99, 106)), _PROGRAM, "the JPEG engine failed a program"),
        *_each((86, 139), _PROGRAM, "the optical flow engine failed a program"),
        *_each((94,), _PROGRAM, "an error in memory hit one program and was contained"),
        *_each((109,), _PROGRAM, "a program did not let another one have its turn"),
        *_each((137,), _PROGRAM, "a program used memory of a peer that is not its"),
        # The card works on.
        *_each((14, 106, 107), _NOTE, "a test"),
        *_each((37, 38, 44, 66, 67), _NOTE, "the driver and the card misunderstood each other"),
        *_each((63,), _NOTE, "a bad row of memory is being replaced"),
        *_each((78,), _NOTE, "a virtual GPU did not start"),
        *_each((92,), _NOTE, "many errors in memory are being corrected"),
        *_each((93,), _NOTE, "the card's own record may not be written any more"),
        *_each((108,), _NOTE, "a peer's address could not be translated"),
        *_each((121,), _NOTE, "errors between the card and its processor were corrected"),
        *_each((141,), _NOTE, "a short cut of CUDA failed"),
        *_each((*range(144, 151), 155), _NOTE, "an NVLink reports an error"),
        *_each((152, 153, 159), _NOTE, "a unit beside the card reports an error"),
        *_each((154,), _NOTE, "the driver changed what it asks for"),
        *_each((157,), _NOTE, "a bad resource could not be retired"),
        *_each((160, 161), _NOTE, "a bad channel of memory is being retired"),
        *_each((162, 163, 164, 165), _NOTE, "the smoothing of power changed"),
        *_each((166, 170), _NOTE, "confidential traffic reports an error"),
        *_each((168,), _NOTE, "the card has less memory than it should"),
        # The card needs a reset.
        *_each((46,), _RESET, "the card stopped working"),
        *_each((48, 171, 172), _RESET, "an error in memory could not be corrected"),
        *_each((54,), _RESET, "the card's power cable is not connected"),
        *_each((61, 62, 169), _RESET, "a controller of the card stopped"),
        *_each((64,), _RESET, "a bad row of memory could not be replaced"),
        *_each((74,), _RESET, "an NVLink failed"),
        *_each((95,), _RESET, "an error in memory was not contained"),
        *_each((110,), _RESET, "a fault of the card's security"),
        *_each((119, 120), _RESET, "the card's own processor does not answer"),
        *_each((136,), _RESET, "an NVLink could not be set up"),
        *_each((140,), _RESET, "an error in memory could not be handled"),
        *_each((143,), _RESET, "the card could not be set up"),
        *_each((151,), _RESET, "the card's keys could not be renewed"),
        *_each((156,), _RESET, "a bad resource is retired with the next reset"),
        *_each((158,), _RESET, "the card did not answer in time"),
        *_each((167,), _RESET, "the bus did not answer in time"),
        # The card is gone.
        *_each((79,), _LOST, "the card has fallen off the bus"),
    )
)

# An error of a driver newer than this table is taken seriously.
UNKNOWN: Final = Xid(_RESET, "an error that Berth does not know")


def meaning(number: int) -> Xid:
    """Say what an error means."""
    return TABLE.get(number, UNKNOWN)
