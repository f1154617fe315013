"""NVIDIA's error numbers (XIDs), and what each means for the card that it is reported for.

The numbers and what is to be done about them are those of NVIDIA's catalogue, in our words and
sorted by consequence. Where the catalogue needs further details, which NVML does not
report, the error is only noted: drivers that know such errors also say whether the card needs
a reset, and that is read from the card (`problems`).
"""

import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final


class Consequence(enum.Enum):
    """What has to be done about a card after an error."""

    PROGRAM = "program"  # A program failed, and the card is as good as before.
    NOTE = "note"  # The card goes on working; people may want to know.
    RESET = "reset"  # The card needs a reset.
    LOST = "lost"  # The card is gone until the node is rebooted.


@dataclass(frozen=True, slots=True)
class XidMeaning:
    """The consequence of one error, and a description of it."""

    consequence: Consequence
    text: str


def _numbered(
    numbers: Iterable[int], consequence: Consequence, text: str
) -> Iterator[tuple[int, XidMeaning]]:
    return ((number, XidMeaning(consequence, text)) for number in numbers)


_PROGRAM, _NOTE = Consequence.PROGRAM, Consequence.NOTE
_RESET, _LOST = Consequence.RESET, Consequence.LOST

TABLE: Final[Mapping[int, XidMeaning]] = dict(
    (
        # A program's fault, or a fault that only the program pays for.
        *_numbered((8,), _PROGRAM, "a program's channel stood still"),
        *_numbered((11, 25, 32), _PROGRAM, "a program's stream of commands was broken"),
        *_numbered((13,), _PROGRAM, "a program used a wrong address, register or instruction"),
        *_numbered((31,), _PROGRAM, "a program used memory that is not mapped"),
        *_numbered(
            (39, 40, 41, 70, 71, 72, 75, 76, 77, 85, *range(126, 136)), _PROGRAM, "a copy of a program failed"
        ),
        *_numbered((43,), _PROGRAM, "a program was stopped after its own fault"),
        *_numbered((45,), _PROGRAM, "a program's channels were cleared away after its end"),
        *_numbered((60,), _PROGRAM, "the security engine refused a program"),
        *_numbered((65, 73, 142), _PROGRAM, "an encoder failed a program"),
        *_numbered((68, 83, 84, 88, 89, 96, 97, 98), _PROGRAM, "a decoder failed a program"),
        *_numbered((69,), _PROGRAM, "a program asked for something that the card does not have"),
        *_numbered((80,), _PROGRAM, "a program's commands arrived damaged"),
        *_numbered((82, *range(99, 106)), _PROGRAM, "the JPEG engine failed a program"),
        *_numbered((86, 139), _PROGRAM, "the optical flow engine failed a program"),
        *_numbered((94,), _PROGRAM, "an error in memory hit one program and was contained"),
        *_numbered((109,), _PROGRAM, "a program did not let another one have its turn"),
        *_numbered((137,), _PROGRAM, "a program used memory of a peer that is not its"),
        # The card goes on working.
        *_numbered((14, 106, 107), _NOTE, "a test"),
        *_numbered((37, 38, 44, 66, 67), _NOTE, "the driver and the card misunderstood each other"),
        *_numbered((63,), _NOTE, "a bad row of memory is being replaced"),
        *_numbered((78,), _NOTE, "a virtual GPU did not start"),
        *_numbered((92,), _NOTE, "many errors in memory are being corrected"),
        *_numbered((93,), _NOTE, "the card's own record may not be written any more"),
        *_numbered((108,), _NOTE, "a peer's address could not be translated"),
        *_numbered((121,), _NOTE, "errors between the card and its processor were corrected"),
        *_numbered((141,), _NOTE, "a short cut of CUDA failed"),
        *_numbered((*range(144, 151), 155), _NOTE, "an NVLink reports an error"),
        *_numbered((152, 153, 159), _NOTE, "a unit beside the card reports an error"),
        *_numbered((154,), _NOTE, "the driver changed what it asks for"),
        *_numbered((157,), _NOTE, "a bad resource could not be retired"),
        *_numbered((160, 161), _NOTE, "a bad channel of memory is being retired"),
        *_numbered((162, 163, 164, 165), _NOTE, "the smoothing of power changed"),
        *_numbered((166, 170), _NOTE, "confidential traffic reports an error"),
        *_numbered((168,), _NOTE, "the card has less memory than it should"),
        # The card needs a reset.
        *_numbered((46,), _RESET, "the card stopped working"),
        *_numbered((48, 171, 172), _RESET, "an error in memory could not be corrected"),
        *_numbered((54,), _RESET, "the card's power cable is not connected"),
        *_numbered((61, 62, 169), _RESET, "a controller of the card stopped"),
        *_numbered((64,), _RESET, "a bad row of memory could not be replaced"),
        *_numbered((74,), _RESET, "an NVLink failed"),
        *_numbered((95,), _RESET, "an error in memory was not contained"),
        *_numbered((110,), _RESET, "a fault of the card's security"),
        *_numbered((119, 120), _RESET, "the card's own processor does not answer"),
        *_numbered((136,), _RESET, "an NVLink could not be set up"),
        *_numbered((140,), _RESET, "an error in memory could not be handled"),
        *_numbered((143,), _RESET, "the card could not be set up"),
        *_numbered((151,), _RESET, "the card's keys could not be renewed"),
        *_numbered((156,), _RESET, "a bad resource is retired with the next reset"),
        *_numbered((158,), _RESET, "the card did not answer in time"),
        *_numbered((167,), _RESET, "the bus did not answer in time"),
        # The card is gone.
        *_numbered((79,), _LOST, "the card has fallen off the bus"),
    )
)

# An error of a driver newer than this table is taken seriously.
UNKNOWN: Final = XidMeaning(_RESET, "an error that Berth does not know")


def meaning(number: int) -> XidMeaning:
    """Return what an error means."""
    return TABLE.get(number, UNKNOWN)
