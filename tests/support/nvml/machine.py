"""A machine under the mock of NVML, and hands that break and mend it while a program runs.

    python -m support.nvml.machine FOLDER dgx-a100            make it, and say how to use it
    python -m support.nvml.machine FOLDER card.2.lost=1       change it; `KEY=` takes a line away

Beside the file of state stands what the kernel would tell: a small /sys with the cards'
NUMA nodes and PCIe roots, and the id of the boot.
"""

import argparse
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from support.nvml import build, lines, presets

KNOWN: Final = {preset.name: preset for preset in presets.PRESETS}
VARIABLE: Final = "BERTH_NVML_STATE"
LISTINGS: Final = ("bus/pci/devices", "bus/pci/drivers/nvidia")
PAIRS: Final = ("ancestor", "p2p")  # Tables of what is between two cards.
BOOT: Final = "6cf3bbc0-7726-46d2-816f-525511292b61"

NOT_LOADED: Final = 9
CRITICAL: Final = 0x8  # The event type of XIDs.


class Machine:
    """One machine: a folder with its state, the /sys and /proc of its kernel."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / "state"
        self.sys = folder / "sys"
        self.proc = folder / "proc"

    @classmethod
    def make(cls, folder: Path, preset: presets.Preset) -> "Machine":
        """Build a preset in a folder."""
        machine = cls(folder)
        folder.mkdir(parents=True, exist_ok=True)
        machine._write(dict(preset.state))
        boot_id = machine.proc / "sys/kernel/random/boot_id"
        boot_id.parent.mkdir(parents=True, exist_ok=True)
        boot_id.write_text(BOOT + "\n")
        for listing in LISTINGS:
            (machine.sys / listing).mkdir(parents=True, exist_ok=True)
        for seat in preset.seats:
            machine._seat(seat)
        return machine

    # The file.

    def read(self) -> dict[str, str]:
        """Read what the state says now."""
        lines = (
            line.partition(" = ") for line in self.state.read_text(errors="surrogateescape").splitlines()
        )
        return {key: value for key, _, value in lines}

    def change(self, changes: Mapping[str, object]) -> None:
        """Change lines of the state, all at once; None takes one away."""
        after = {**self.read(), **changes}
        self._write({key: str(value) for key, value in after.items() if value is not None})

    def _write(self, state: Mapping[str, str]) -> None:
        handle, half = tempfile.mkstemp(dir=self.folder)
        # What is no text in any encoding can stand in a name too: drivers do not promise UTF-8.
        with os.fdopen(handle, "w", errors="surrogateescape") as file:
            file.writelines(f"{key} = {value}\n" for key, value in state.items())
        Path(half).rename(self.state)

    # What may happen to a card.

    def lose(self, card: int) -> None:
        """Let a card fall off the bus."""
        self.change({f"card.{card}.lost": 1})

    def find(self, card: int) -> None:
        """Let a lost card answer again."""
        self.change({f"card.{card}.lost": None})

    def drop(self, card: int) -> None:
        """Have NVML count a card no more, though the kernel's driver still holds it."""
        self.change({f"card.{card}.absent": 1})

    def unplug(self, card: int) -> None:
        """Remove a card from the machine."""
        self.drop(card)
        for listing in LISTINGS:
            (self.sys / listing / self._address(card)).unlink()

    def plug(self, card: int) -> None:
        """Put a card back into the machine."""
        self.change({f"card.{card}.absent": None})
        address = self._address(card)
        self._list(next(self.sys.glob(f"devices/*/*/{address}")))

    def _address(self, card: int) -> str:
        return self.read()[f"card.{card}.bus"].lower().removeprefix("0000")

    def reorder(self, order: Sequence[int]) -> None:
        """Have the cards be found in another order from now on: first the one that was `order[0]`."""
        place = {card: each for each, card in enumerate(order)}
        self._write({_moved(key, place): value for key, value in self.read().items()})

    def reset(self, card: int) -> None:
        """Reset a card: who knew it must initialise anew."""
        self.change({f"card.{card}.reset": self._one_more(f"card.{card}.reset")})

    def raise_xid(self, card: int, xid: int, *, at: tuple[int, int] | None = None) -> None:
        """Have the driver tell an error (XID) of a card, or of one MIG instance of it."""
        told = [int(key.removeprefix("event.")) for key in self.read() if key.startswith("event.")]
        where = "" if at is None else f" {at[0]} {at[1]}"
        self.change({f"event.{max(told, default=0) + 1}": f"{card} {CRITICAL} {xid}{where}"})

    def fill(self, card: int, used: int) -> None:
        """Have so many bytes of a card's memory be in use."""
        total, reserved, _ = self.read()[f"card.{card}.memory"].split()
        self.change({f"card.{card}.memory": f"{total} {reserved} {used}"})

    # What may happen to calls and to the driver.

    def fail(self, call: str, code: int | None, *, card: int | None = None) -> None:
        """Have a call answer an error, for one card or for all; None mends it."""
        self.change({_key("error", call, card): code})

    def hang(self, call: str, *, card: int | None = None) -> None:
        """Have a call hang until it is released."""
        self.change({_key("hang", call, card): 1})

    def release(self, call: str, *, card: int | None = None) -> None:
        """Let a call go on."""
        self.change({_key("hang", call, card): None})

    def release_all(self) -> None:
        """Let every call go on."""
        self.change({key: None for key in self.read() if "hang." in key})

    def unload(self, code: int = NOT_LOADED) -> None:
        """Unload the driver: every call answers this error."""
        self.change({"driver.error": code})

    def load(self) -> None:
        """Load the driver, anew if it was there."""
        self.change({"driver.error": None, "driver.reset": self._one_more("driver.reset")})

    def _one_more(self, key: str) -> int:
        return int(self.read().get(key, "0")) + 1

    # What the kernel tells.

    def _seat(self, seat: presets.Seat) -> None:
        bridge = f"0000:{seat.root:02x}:01.0"
        place = self.sys / "devices" / f"pci0000:{seat.root:02x}" / bridge / seat.address
        place.mkdir(parents=True, exist_ok=True)
        (place / "numa_node").write_text(f"{seat.numa}\n")
        self._list(place)

    def _list(self, place: Path) -> None:
        for listing in LISTINGS:
            link = self.sys / listing / place.name
            link.unlink(missing_ok=True)
            link.symlink_to(os.path.relpath(place, link.parent))


def _moved(key: str, place: Mapping[int, int]) -> str:
    """Name a line of the state as it is called when its cards stand elsewhere."""
    kind, *rest = key.split(".")
    if kind == "card":
        return ".".join((kind, str(place[int(rest[0])]), *rest[1:]))
    if kind in PAIRS:
        return ".".join((kind, *map(str, sorted(place[int(each)] for each in rest))))
    return key


def _key(what: str, call: str, card: int | None) -> str:
    return f"{what}.{call}" if card is None else f"card.{card}.{what}.{call}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Make or change a machine from the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m support.nvml.machine",
        usage="%(prog)s [-h] FOLDER (MACHINE | KEY=VALUE ...)",
        description="Make a machine for the mock of NVML in a folder, or change one that is there.",
        epilog="tests/support/nvml/state.h lists the keys.",
    )
    parser.add_argument("folder", metavar="FOLDER", type=Path)
    parser.add_argument(
        "words",
        metavar="MACHINE | KEY=VALUE",
        nargs="+",
        help=f"what to make: {', '.join(KNOWN)}; or what to change, such as card.2.lost=1 "
        "(KEY= takes a line away)",
    )
    chosen = parser.parse_args(arguments)
    try:
        print(_done(Machine(chosen.folder), chosen.words), end="")
    except ValueError as error:
        parser.exit(2, f"{parser.prog}: {error}\n")


def _done(machine: Machine, words: Sequence[str]) -> str:
    """Do what a command line says, all of it or nothing, and return what is to be said."""
    if len(words) == 1 and "=" not in words[0]:
        return _made(machine.folder, words[0])
    if plain := [word for word in words if "=" not in word]:
        raise ValueError(f"{plain[0]!r} is no KEY=VALUE, and a machine to make stands alone")
    if not machine.state.exists():
        raise ValueError(f"{machine.folder} is no machine yet; make one first, such as dgx-a100")
    changes = {key: value or None for key, _, value in (word.partition("=") for word in words)}
    if fault := lines.fault(changes, machine.read()):
        raise ValueError(fault)
    machine.change(changes)
    return ""


def _made(folder: Path, name: str) -> str:
    if name not in KNOWN:
        raise ValueError(f"{name!r} is no machine that is known; there are {', '.join(KNOWN)}")
    if not build.compiler():
        raise ValueError("the mock is built with gcc, and there is none")
    machine = Machine.make(folder, KNOWN[name])
    return f"export LD_LIBRARY_PATH={build.library().parent} {VARIABLE}={machine.state.absolute()}\n"


if __name__ == "__main__":
    main()
