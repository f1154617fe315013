"""Whether the runtime of a node obeys the environment of containers, by its configuration."""

import asyncio
from pathlib import Path

import pytest

from berth_agent import runtime_watch
from berth_crds import wire
from testbed import waiting


@pytest.mark.parametrize(
    ("text", "failure"),
    {
        "empty": ("", ""),
        "as it is by default": ("#accept-nvidia-visible-devices-envvar-when-unprivileged = true\n", ""),
        "accepted": ("accept-nvidia-visible-devices-envvar-when-unprivileged = true\n", ""),
        "not accepted": (
            "accept-nvidia-visible-devices-envvar-when-unprivileged = false\n",
            "{path} says accept-nvidia-visible-devices-envvar-when-unprivileged = false.",
        ),
        "no TOML": ("= 1", "{path} cannot be read: Invalid statement (at line 1, column 1)."),
    }.values(),
)
def test_what_a_file_says(tmp_path: Path, text: str, failure: str) -> None:
    """The toolkit's own word for it."""
    path = tmp_path / "config.toml"
    path.write_text(text)

    assert runtime_watch.failure(path) == failure.format(path=path)


def test_one_of_several_files_will_do(tmp_path: Path) -> None:
    """The toolkit keeps its file in one of several places."""
    there, absent = tmp_path / "config.toml", tmp_path / "absent.toml"
    there.touch()

    assert not runtime_watch.RuntimeConfig((absent, there)).failure()
    assert runtime_watch.RuntimeConfig((absent,)).failure() == f"{absent}: No such file or directory."


async def test_a_runtime_that_is_installed_later_is_found(tmp_path: Path) -> None:
    """And one that is taken away is missed."""
    path = tmp_path / "config.toml"
    watch = runtime_watch.RuntimeWatch(runtime_watch.RuntimeConfig((path,)), interval=0.01)

    async def until(status: str) -> wire.Condition:
        await waiting.eventually(lambda: watch.condition().status == status, what=f"status {status}")
        return watch.condition()

    async with asyncio.TaskGroup() as group:
        running = group.create_task(watch.run())
        before = await until("False")
        path.touch()
        there = await until("True")
        path.unlink()
        await until("False")
        running.cancel()

    assert (before.type, before.reason) == ("EnvReady", "NoRuntime")
    assert (there.type, there.reason) == ("EnvReady", "RuntimeFound")
