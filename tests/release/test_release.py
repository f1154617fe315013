"""What a version consists of, what it is called, and that it is whole."""

import hashlib
import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml
from packaging.version import Version

from release import __main__ as release
from release import bed as beds
from release import bill, cached, images, layout, rendering, sources, versions
from support import thorough


@pytest.mark.parametrize(
    ("version", "of_package"),
    [
        ("1.2.3", "1.2.3"),
        ("1.2.3-rc.1", "1.2.3rc1"),
        ("1.2.3-alpha2", "1.2.3a2"),
        ("0.2.0-test", "0.2.0.dev0+test"),
        ("0.2.0-try-2.X", "0.2.0.dev0+try.2.x"),
    ],
)
def test_python_sorts_a_version_as_people_do(version: str, of_package: str) -> None:
    """What comes before a version is less than it, and is written as Python's packages write it."""
    assert versions.of_package(version) == of_package
    assert f"{Version(of_package)}" == of_package
    assert (Version(of_package) < Version(version.partition("-")[0])) == ("-" in version)


@pytest.mark.parametrize(
    "text", ["", "1.2", "v1.2.3", "01.2.3", "1.2.3+build", "1.2.3-", "1.2.3-a..b", "1.2.3\n"]
)
def test_what_is_no_version_is_refused_before_anything_is_built(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """By a sentence that shows one."""
    assert release.main([text]) == release.FAILED
    assert capsys.readouterr().err == (
        f"release: {text!r} is no version; write one as 1.2.3, or as 1.2.3-rc.1 before it is out.\n"
    )


def test_the_version_stands_at_one_place() -> None:
    """The chart has it from there, by `make manifests`."""
    version = versions.of_checkout(layout.ROOT)
    chart = yaml.safe_load((rendering.CHART / "Chart.yaml").read_text())

    assert chart["version"] == chart["appVersion"] == version
    assert f"## {version}" in (layout.ROOT / "manifests" / "CHANGELOG.md").read_text()


def test_a_copy_says_which_version_it_is_and_where_its_images_are(tmp_path: Path) -> None:
    """At each place, and the checkout stays as it is."""
    before = (rendering.CHART / "Chart.yaml").read_text()
    copy = tmp_path / "copy"
    sources.copy(copy)
    sources.stamp(copy, "3.2.1-rc.4", "registry.example.com/berth")

    assert versions.of_checkout(copy) == "3.2.1rc4"
    chart = yaml.safe_load((copy / sources.CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == "3.2.1-rc.4"
    values = yaml.safe_load((copy / sources.CHART / "values.yaml").read_text())
    assert values["image"]["repository"] == "registry.example.com/berth"
    assert (rendering.CHART / "Chart.yaml").read_text() == before


def archive(path: Path, files: dict[str, str]) -> Path:
    """Write an OCI archive of an image with one layer."""

    def packed(contents: dict[str, bytes]) -> bytes:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            for name, content in contents.items():
                member = tarfile.TarInfo(name)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
        return buffer.getvalue()

    blobs: dict[str, bytes] = {}

    def blob(content: bytes) -> dict[str, str]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = content
        return {"digest": f"sha256:{digest}"}

    layer = blob(packed({name: text.encode() for name, text in files.items()}))
    manifest = blob(json.dumps({"layers": [layer]}).encode())
    index = json.dumps({"manifests": [manifest]}).encode()
    path.write_bytes(packed({"index.json": index, **blobs}))
    return path


def test_the_bill_names_what_is_in_the_image(tmp_path: Path) -> None:
    """Python's packages and Debian's, but none that was removed, with addresses by which tools know them."""
    image = archive(
        tmp_path / "image.tar",
        {
            "opt/Kopf-1.45.dist-info/METADATA": "Name: Kopf\nVersion: 1.45\nLicense: MIT\n\nLong.",
            "var/lib/dpkg/status": (
                "Package: libc6\nStatus: install ok installed\nVersion: 1:2.36-9+deb12u1\n\n"
                "Package: gone\nStatus: deinstall ok config-files\nVersion: 1\n"
            ),
            "opt/other/METADATA": "Name: nothing\n",
        },
    )

    parts = list(bill.parts(image))
    assert parts == [
        bill.Part("pypi", "Kopf", "1.45", "MIT"),
        bill.Part("deb/debian", "libc6", "1:2.36-9+deb12u1"),
    ]
    assert [part.address for part in parts] == [
        "pkg:pypi/kopf@1.45",
        "pkg:deb/debian/libc6@1%3A2.36-9%2Bdeb12u1",
    ]
    written = json.loads(bill.written("berth-agent:1", "1", parts))
    assert [one["name"] for one in written["components"]] == ["libc6", "Kopf"]
    assert written["metadata"]["component"]["name"] == "berth-agent:1"


@pytest.mark.slow
@pytest.mark.thorough
def test_a_release_is_whole(tmp_path: Path) -> None:
    """Its checksums hold, its chart is clean, its bills know what runs, and its wheel gives all programs."""
    beds.skip_without_tools()
    folder = cached.made()
    version, wheel_version = cached.TESTED, versions.of_package(cached.TESTED)
    names = {path.name for path in folder.iterdir()}
    assert names == {
        f"berth-{wheel_version}.tar.gz",
        f"berth-{wheel_version}-py3-none-any.whl",
        f"berth-{version}.tgz",
        "berth.yaml",
        "berth-crds.yaml",
        release.CHECKSUMS,
        *(
            f"berth-{program.name}-{version}{end}"
            for program in layout.PROGRAMS
            for end in (".oci.tar", ".cdx.json")
        ),
    }
    subprocess.run(["sha256sum", "--check", "--quiet", release.CHECKSUMS], cwd=folder, check=True)
    rendering.helm("lint", "--strict", f"{folder / f'berth-{version}.tgz'}")
    assert f"localhost/berth-operator:{version}" in (folder / "berth.yaml").read_text()
    for program, needed in (("operator", "kopf"), ("agent", "grpcio")):
        written = json.loads((folder / f"berth-{program}-{version}.cdx.json").read_text())
        assert {"berth", needed, "python3-minimal"} <= {one["name"] for one in written["components"]}
    programs = install(folder / f"berth-{wheel_version}-py3-none-any.whl", tmp_path)
    for name in ("berth-operator", "berth-agent", "berth-simulation"):
        said = subprocess.run([programs / name, "--version"], capture_output=True, text=True, check=True)
        assert said.stdout == f"{name} {wheel_version}\n"


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize(("name", "megabytes"), [("operator", 160), ("agent", 70)])
def test_images_are_small(name: str, megabytes: int) -> None:
    """Beyond their base, and unpacked; nodes fetch them before a pod can start."""
    beds.skip_without_tools()
    archive = cached.made() / f"berth-{name}-{cached.TESTED}.oci.tar"
    base, *ours = (sum(member.size for member in files) for files in bill.layers(archive))

    assert base > sum(ours[-1:])
    assert 0 < sum(ours) <= megabytes * images.MEGABYTE


@pytest.mark.slow
@pytest.mark.skipif(not thorough.FULL, reason="`make e2e-install` builds the images twice")
def test_two_builds_give_the_same_layers(tmp_path: Path) -> None:
    """Though nothing is left of the first; so a node fetches only what has changed."""
    beds.skip_without_tools()
    folder, naming = cached.made(), images.Naming(images.REPOSITORY, cached.TESTED, cached.TESTED)
    (wheel,) = folder.glob("*.whl")
    with cached.engine() as engine:
        images.build(engine, images.debian(engine), wheel, naming, archives=tmp_path)

    for program in layout.PROGRAMS:
        archive = naming.archive(program)
        assert bill.layer_digests(tmp_path / archive) == bill.layer_digests(folder / archive)


def install(wheel: Path, place: Path) -> Path:
    """Install a wheel for both programs into an environment of its own; return their folder."""
    subprocess.run([sys.executable, "-m", "venv", f"{place}"], check=True)
    programs = place / "bin"
    constraints = ("--constraint", f"{layout.ROOT / '.constraints.txt'}")
    words = ("-m", "pip", "install", "--quiet", *constraints, f"{wheel}[operator,agent]")
    subprocess.run([programs / "python", *words], check=True)
    return programs
