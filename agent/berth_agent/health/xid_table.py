"""NVIDIA's error numbers (XIDs), and what each means for the card that it is reported for.

The numbers and what is to be done about them are those of NVIDIA's catalogue, in our words and
sorted by consequence. Where the catalogue needs further details, which NVML does not
report, the error is only noted: drivers that know such errors also say whether the card needs
a reset, and that is read from the card (`problems`).
"""

import enum
from collections.abc import Mapping
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


# By consequence: what each error is, and its numbers.
DESCRIPTIONS: Final[Mapping[Consequence, Mapping[str, tuple[int, ...]]]] = {
    Consequence.PROGRAM: {
        "a program's channel timed out": (8,),
        "a program's stream of commands was broken": (11, 25, 32),
        "a program used a wrong address, register or instruction": (13,),
        "a program used memory that is not mapped": (31,),
        "a copy of a program failed": (39, 40, 41, 70, 71, 72, 75, 76, 77, 85, *range(126, 136)),
        "a program was stopped after its own fault": (43,),
        "a program's channels were cleared away after its end": (45,),
        "the security engine refused a program": (60,),
        "an encoder failed a program": (65, 73, 142),
        "a decoder failed a program": (68, 83, 84, 88, 89, 96, 97, 98),
        "a program asked for something that the card does not have": (69,),
        "a program's commands arrived damaged": (80,),
        "the JPEG engine failed a program": (82, *range(99, 106)),
        "the optical flow engine failed a program": (86, 139),
        "an error in memory hit one program and was contained": (94,),
        "a program did not let another one have its turn": (109,),
        "a program accessed a peer's memory that is not its own": (137,),
    },
    Consequence.NOTE: {
        "a test event": (14, 106, 107),
        "the driver and the card misunderstood each other": (37, 38, 44, 66, 67),
        "a bad row of memory is being replaced": (63,),
        "a virtual GPU did not start": (78,),
        "many errors in memory are being corrected": (92,),
        "the card's InfoROM is write-protected": (93,),
        "a peer's address could not be translated": (108,),
        "errors between the card and its processor were corrected": (121,),
        "a short cut of CUDA failed": (141,),
        "an NVLink reports an error": (*range(144, 151), 155),
        "a unit beside the card reports an error": (152, 153, 159),
        "the driver changed what it asks for": (154,),
        "a bad resource could not be retired": (157,),
        "a bad channel of memory is being retired": (160, 161),
        "power smoothing changed": (162, 163, 164, 165),
        "confidential traffic reports an error": (166, 170),
        "the card has less memory than it should": (168,),
    },
    Consequence.RESET: {
        "the card stopped working": (46,),
        "an error in memory could not be corrected": (48, 171, 172),
        "the card's power cable is not connected": (54,),
        "a controller of the card stopped": (61, 62, 169),
        "a bad row of memory could not be replaced": (64,),
        "an NVLink failed": (74,),
        "an error in memory was not contained": (95,),
        "a fault of the card's security": (110,),
        "the card's own processor does not answer": (119, 120),
        "an NVLink could not be set up": (136,),
        "an error in memory could not be handled": (140,),
        "the card could not be set up": (143,),
        "the card's keys could not be renewed": (151,),
        "a bad resource is retired with the next reset": (156,),
        "the card did not answer in time": (158,),
        "the bus did not answer in time": (167,),
    },
    Consequence.LOST: {
        "the card has fallen off the bus": (79,),
    },
}

TABLE: Final[Mapping[int, XidMeaning]] = {
    number: XidMeaning(consequence, text)
    for consequence, described in DESCRIPTIONS.items()
    for text, numbers in described.items()
    for number in numbers
}

# An error of a driver newer than this table is taken seriously.
UNKNOWN: Final = XidMeaning(Consequence.RESET, "an error that Berth does not know")


def meaning(number: int) -> XidMeaning:
    """Return what an error means."""
    return TABLE.get(number, UNKNOWN)
