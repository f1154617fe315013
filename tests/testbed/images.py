"""Images for containers, made without a registry: one program, and nothing else."""

import hashlib
import io
import json
import platform
import shutil
import subprocess
import tarfile
from pathlib import Path

NAME = "berth.invalid/pause:1"

# It waits to be told to end, as the infrastructure container of a pod does. `/pause env`, which people
# may run beside it, prints the environment of the container.
PROGRAM = """\
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
extern char **environ;
static void end(int number) { (void)number; _exit(0); }
int main(int count, char **words) {
    (void)words;
    if (count > 1) {
        for (char **each = environ; *each; each++) puts(*each);
        return 0;
    }
    signal(SIGTERM, end); signal(SIGINT, end); for (;;) pause();
}
"""


def obstacle() -> str:
    """Explain in one sentence why no image can be made; empty if one can."""
    return "" if shutil.which("gcc") else "the image of a container is built with gcc, and there is none"


def build(directory: Path) -> Path:
    """Build the image, as an archive that `ctr images import` reads."""
    source, program = directory / "pause.c", directory / "pause"
    source.write_text(PROGRAM)
    subprocess.run(["gcc", "-static", "-Os", "-o", program, source], check=True)
    archive = directory / "pause.tar"
    archive.write_bytes(_archive(_layer(program)))
    return archive


def _layer(program: Path) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as layer:
        layer.add(program, arcname=program.name)
    return buffer.getvalue()


def _archive(layer: bytes) -> bytes:
    """Write an archive as `docker save` does."""
    config = json.dumps(
        {
            "os": "linux",
            "architecture": {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()],
            "config": {"Entrypoint": ["/pause"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        }
    ).encode()
    named = f"{hashlib.sha256(config).hexdigest()}.json"
    listing = json.dumps([{"Config": named, "RepoTags": [NAME], "Layers": ["layer.tar"]}]).encode()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in ((named, config), ("layer.tar", layer), ("manifest.json", listing)):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
