"""Which configuration file a node has, by its label and by what NVIDIA's users may say instead."""

import asyncio
from pathlib import Path

import pytest

from agent.test_config_file import PLUGIN
from berth_agent import config_choice, configuration, settings
from berth_agent.config_choice import ConfigFolder
from berth_crds import flags

FOLDER = Path("/configs")


def chosen(label: str, *names: str, default: str = "", fallbacks: str = "named,single") -> str:
    """Choose among these files."""
    return config_choice.chosen(label, names, ConfigFolder(FOLDER, default, tuple(fallbacks.split(","))))


def test_the_label_comes_first_then_the_default_then_the_fallbacks() -> None:
    """As in NVIDIA's config-manager."""
    assert chosen("b", "a", "b", "default", default="a") == "b"
    assert chosen("", "a", "b", "default", default="a") == "a"
    assert chosen("", "a", "b", "default") == "default"
    assert chosen("", "a") == "a"
    assert chosen("", "a", "b", fallbacks="named,single,empty") == ""
    assert chosen("", "a", fallbacks="empty,single") == ""


NOT_LABELLED = (
    "The node has no label nvidia.com/device-plugin.config, --default-config names none, and of /configs,"
    " which has a, b, named and single finds none."
)


@pytest.mark.parametrize(
    ("label", "names", "default", "sentence"),
    [
        (
            "c",
            "ab",
            "",
            (
                "The label nvidia.com/device-plugin.config of the node names the configuration 'c',"
                " which does not exist; /configs has a, b."
            ),
        ),
        (
            "",
            "",
            "c",
            "The flag --default-config names the configuration 'c', which does not exist; /configs has none.",
        ),
        ("", "ab", "", NOT_LABELLED),
    ],
)
def test_what_is_not_there_is_told(label: str, names: str, default: str, sentence: str) -> None:
    """With what there is."""
    with pytest.raises(flags.UsageError) as refusal:
        chosen(label, *names, default=default)
    assert f"{refusal.value}".startswith(sentence)


def test_the_files_of_a_mounted_configmap_are_those_without_a_dot(tmp_path: Path) -> None:
    """Kubernetes keeps its own beside them, and links to those."""
    (tmp_path / "..2026").mkdir()
    (tmp_path / "..2026" / "a").touch()
    (tmp_path / "..data").symlink_to("..2026")
    (tmp_path / "a").symlink_to("..data/a")
    (tmp_path / "folder").mkdir()

    assert config_choice.files(tmp_path) == ["a"]
    with pytest.raises(flags.UsageError, match="cannot be read"):
        config_choice.files(tmp_path / "none")


def test_the_folder_is_given_by_flags_or_as_nvidias_users_do() -> None:
    """It goes with one node, and not with a file."""
    nvidias = {"CONFIG_FILE_SRCDIR": "/c", "DEFAULT_CONFIG": "a", "FALLBACK_STRATEGIES": "single, empty"}

    assert settings.parse([], {}, host="n1").config_folder is None
    found = settings.parse(PLUGIN, nvidias, host="n1").config_folder
    assert found == ConfigFolder(Path("/c"), "a", ("single", "empty"))
    for words, sentence in (
        (["--config-folder=c", "--config-file=f"], "--config-file names the file itself"),
        (
            ["--config-folder=c", "--simulated-node=a=1xT4", "--simulated-node=b=1xT4"],
            "it goes with one node",
        ),
        (["--config-folder=c", "--fallback-strategies=some"], "'some' is none of named, single, empty"),
    ):
        with pytest.raises(flags.UsageError, match=sentence):
            settings.parse(words, {}, host="n1")


async def test_a_file_that_says_something_else_is_noticed(tmp_path: Path) -> None:
    """When a signal asks for it; one that cannot be used changes nothing, and the log says why."""
    path = tmp_path / "config.yaml"
    path.write_text("flags: {migStrategy: single}")
    reader = configuration.SettingsReader([f"--config-file={path}"], {}, host="n1")
    first = await reader.at_start()
    assert first.modes.mig_strategy == "single"

    changed = asyncio.create_task(reader.changed(first))
    for text in ("flags: {migStrategy: single}", "", "flags: {migStrategy: some}", "flags: [", "version: v9"):
        path.write_text(text)
        reader.look_again()
        await asyncio.sleep(0.05)
        assert not changed.done()
    path.write_text("flags: {migStrategy: none}")
    reader.look_again()
    async with asyncio.timeout(10):
        await changed


async def test_what_only_the_file_says_is_not_missed_before_it_is_read(tmp_path: Path) -> None:
    """Settings are checked as a whole, with the file."""
    path = tmp_path / "config.yaml"
    words = [f"--config-file={path}", "--nri=n", "--share-isolation=mps"]
    path.write_text("flags: {mpsRoot: /run/mps}")
    settings_ = await configuration.SettingsReader(words, {}, host="n1").at_start()
    assert settings_.mps is not None
    path.write_text("flags: {migStrategy: single}")
    with pytest.raises(flags.UsageError, match="give --mps-root FOLDER"):
        await configuration.SettingsReader(words, {}, host="n1").at_start()
