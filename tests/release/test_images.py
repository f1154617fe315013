"""What goes into the images, and what builds them. That they run is tested where they are installed."""

import ctypes
import re
import subprocess
from pathlib import Path

import pytest

from release import engines, images, layout

EPOCH = 1_700_000_000


def files(folder: Path) -> set[str]:
    """Return the paths of all files of a folder."""
    return {f"{path.relative_to(folder)}" for path in folder.rglob("*") if path.is_file()}


def test_what_no_program_reads_is_left_out(tmp_path: Path) -> None:
    """Tests, headers and types of wheels, and what the installer notes about this machine; never licenses."""
    kept = [
        "numpy/core.py",
        "numpy/core.so",
        "numpy-2.dist-info/METADATA",
        "numpy-2.dist-info/licenses/LICENSE",
    ]
    left_out = [
        "numpy/tests/test_core.py",
        "numpy/include/core.h",
        "numpy/core.pyi",
        "numpy-2.dist-info/direct_url.json",
        "numpy-2.dist-info/RECORD",
        "bin/f2py",
    ]
    for name in (*kept, *left_out):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    layout.prune(tmp_path)

    assert files(tmp_path) == set(kept)


MODULE = "numbers.cpython-311-x86_64-linux-gnu.so"
LIBRARY = "libnumbers.so"


def test_modules_leave_the_symbols_for_debuggers_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They still give what they gave. Other libraries stay as they are, and all does without binutils."""
    for name in (MODULE, LIBRARY):
        build = ("gcc", "-g", "-shared", "-fPIC", "-x", "c", "-o", f"{tmp_path / name}", "-")
        subprocess.run(build, input="int seven(void) { return 7; }", text=True, check=True)
    before = [(tmp_path / name).read_bytes() for name in (MODULE, LIBRARY)]

    with monkeypatch.context() as without:
        without.setenv("PATH", f"{tmp_path}")
        layout.strip(tmp_path)
    assert [(tmp_path / name).read_bytes() for name in (MODULE, LIBRARY)] == before

    layout.strip(tmp_path)
    module, library = ((tmp_path / name).read_bytes() for name in (MODULE, LIBRARY))
    assert (len(module) < len(before[0]), library == before[1]) == (True, True)
    assert ctypes.CDLL(f"{tmp_path / MODULE}").seven() == 7


def test_files_of_a_layer_have_one_time_and_usual_modes(tmp_path: Path) -> None:
    """Whatever they had: so two builds give the same."""
    (tmp_path / "package").mkdir(mode=0o700)
    for name, mode in (("one.py", 0o600), ("two.so", 0o777)):
        (tmp_path / "package" / name).touch(mode=mode)

    layout.settle([tmp_path], EPOCH)

    found = {path.name: path.stat() for path in (tmp_path / "package", *(tmp_path / "package").iterdir())}
    assert {name: stat.st_mode & 0o777 for name, stat in found.items()} == {
        "package": 0o755,
        "one.py": 0o644,
        "two.so": 0o755,
    }
    assert {stat.st_mtime for stat in found.values()} == {EPOCH}


def program(folder: Path, name: str, *, works: bool = True) -> Path:
    """Make a program that writes down how it is called, and that fails unless it works."""
    made = folder / name
    made.write_text(f'#!/bin/sh\necho "$@" >> {folder / "calls"}\nexit {0 if works else 1}\n')
    made.chmod(0o755)
    return made


def test_an_engine_without_a_daemon_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Docker's command line may be there alone."""
    monkeypatch.setenv("PATH", f"{tmp_path}")
    with pytest.raises(engines.NoEngine, match="install one of docker, podman, buildah"):
        engines.find()
    program(tmp_path, "docker", works=False)
    path = program(tmp_path, "podman")

    assert engines.find() == engines.Engine("podman", f"{path}")
    with pytest.raises(engines.NoEngine, match="docker is not on the PATH, or does not work"):
        engines.find("docker")


@pytest.mark.parametrize(("name", "timed"), [("docker", ""), ("podman", f"--layers --timestamp {EPOCH} ")])
def test_an_image_is_built_from_one_file(
    name: str, timed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the base that is asked for, with one time for all files."""
    monkeypatch.setenv("PATH", "/bin")
    engine = engines.Engine(name, f"{program(tmp_path, name)}")

    engine.build(
        "berth-agent:1",
        Path("folder"),
        containerfile=Path("file"),
        target="agent",
        arguments={"BASE": "slim"},
        epoch=EPOCH,
    )

    assert (tmp_path / "calls").read_text() == (
        "build --file file --tag berth-agent:1 --target agent --build-arg BASE=slim"
        f" --build-arg SOURCE_DATE_EPOCH={EPOCH} {timed}folder\n"
    )


def test_an_engine_that_fails_is_quoted(tmp_path: Path) -> None:
    """With its own words."""
    path = program(tmp_path, "podman", works=False)
    path.write_text("#!/bin/sh\necho no space is left >&2\nexit 1\n")

    with pytest.raises(engines.Failed, match="podman save failed: no space is left"):
        engines.Engine("podman", f"{path}").save("berth-agent:1", tmp_path / "archive")


def test_where_nothing_builds_images_one_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a traceback."""
    monkeypatch.setenv("PATH", f"{tmp_path}")

    assert images.main([]) == images.FAILED
    assert capsys.readouterr().err == (
        "images: Nothing here builds images: install one of docker, podman, buildah.\n"
    )


def test_the_images_need_no_shell_and_the_operator_no_root() -> None:
    """Each command is a list of words, and users are numbers, as a policy of a cluster wants to see them."""
    text = (layout.ROOT / images.CONTAINERFILE).read_text()
    stages = text.split("\nFROM ")

    commands = re.findall(r"^(?:RUN|ENTRYPOINT|CMD) (.)", text, re.MULTILINE)
    assert commands
    assert set(commands) == {"["}
    assert [re.findall(r"^USER (.*)", stage, re.MULTILINE) for stage in stages[2:]] == [["65532:65532"], []]


def test_the_page_names_what_can_be_asked() -> None:
    """And nothing that there is not."""
    page = ((layout.ROOT / images.CONTAINERFILE).parent / "README.md").read_text()
    flags = {option for action in images._parser()._actions for option in action.option_strings}

    assert set(re.findall(r"--[a-z]+(?=[ `\"])", page)) - {"--output"} <= flags
