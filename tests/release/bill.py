"""What an image consists of, read from the image itself, as a CycloneDX bill of materials."""

import email.parser
import json
import tarfile
import urllib.parse
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

STATUS: Final = "var/lib/dpkg/status"
SPEC: Final = "1.6"


class Part(NamedTuple):
    """A package in an image: of which kind, and what it says of itself."""

    kind: str
    name: str
    version: str
    license: str = ""

    @property
    def address(self) -> str:
        """Return the package's address, by which tools find what is known about it."""
        return f"pkg:{self.kind}/{self.name.lower()}@{urllib.parse.quote(self.version, safe='')}"


def written(image: str, version: str, parts: Iterable[Part]) -> str:
    """Return the bill of an image; the same parts give the same text."""
    whole = {"type": "container", "bom-ref": image, "name": image, "version": version}
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": SPEC,
        "version": 1,
        "metadata": {"component": whole},
        "components": [_component(part) for part in sorted(set(parts))],
    }
    return json.dumps(bill, indent=1) + "\n"


def _component(part: Part) -> dict[str, Any]:
    """Return what the bill says about one package."""
    known: dict[str, Any] = {"licenses": [{"license": {"name": part.license}}]} if part.license else {}
    return {
        "type": "library",
        "bom-ref": part.address,
        "name": part.name,
        "version": part.version,
        "purl": part.address,
        **known,
    }


def parts(archive: Path) -> Iterator[Part]:
    """Yield the packages of an image, of which there is an OCI archive."""
    for files in layers(archive):
        yield from _of_layer(files)


def layers(archive: Path) -> Iterator[tarfile.TarFile]:
    """Yield the layers of an image, of which there is an OCI archive, the base's first."""
    with tarfile.open(archive) as image:
        for layer in _manifest(image)["layers"]:
            packed = image.extractfile(_blob(layer))
            with tarfile.open(fileobj=packed, mode="r|*") as files:
                yield files


def layer_digests(archive: Path) -> list[str]:
    """Return the digests of what the layers of an image hold, however they are packed."""
    with tarfile.open(archive) as image:
        digests: list[str] = _json(image, _blob(_manifest(image)["config"]))["rootfs"]["diff_ids"]
    return digests


def _manifest(image: tarfile.TarFile) -> Any:
    (manifest,) = _json(image, "index.json")["manifests"]
    return _json(image, _blob(manifest))


def _of_layer(files: tarfile.TarFile) -> Iterator[Part]:
    """Yield the packages of a layer: those of Python, and the base's, where it is made of Debian's."""
    for member in files:
        name = member.name.removeprefix("./")
        is_python = name.endswith(".dist-info/METADATA")
        if (is_python or name == STATUS) and (file := files.extractfile(member)):
            text = file.read().decode()
            yield from [_of_python(text)] if is_python else _of_debian(text)


def _of_python(metadata: str) -> Part:
    found = email.parser.HeaderParser().parsestr(metadata)
    said = found.get("License-Expression") or found.get("License") or ""
    return Part("pypi", found["Name"], found["Version"], said if "\n" not in said else "")


def _of_debian(status: str) -> Iterator[Part]:
    for paragraph in status.strip().split("\n\n"):
        found = email.parser.HeaderParser().parsestr(paragraph)
        if found["Status"].endswith(" installed"):
            yield Part("deb/debian", found["Package"], found["Version"])


def _json(image: tarfile.TarFile, name: str) -> Any:
    file = image.extractfile(name)
    assert file
    return json.load(file)


def _blob(descriptor: dict[str, Any]) -> str:
    algorithm, _, digest = descriptor["digest"].partition(":")
    return f"blobs/{algorithm}/{digest}"
