"""Images for containers, made without a registry: one program, and nothing else."""

import functools
import hashlib
import io
import json
import platform
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

NAME = "berth.invalid/pause:1"
CUDA = "berth.invalid/cuda:1"  # The same, but it says as NVIDIA's images do that it sees all cards.

# It waits to be told to end, as the infrastructure container of a pod does, whatever words it is given and
# whichever of its names is called. People may run it beside that, to see what it sees: `/pause env` prints
# its environment, `/pause open PATH...` what comes of opening each path, and `/pause node PATH MAJOR MINOR`
# makes a character device first, as far as that is allowed. `and` stands between several of these.
PROGRAM = """\
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
extern char **environ;
static void end(int number) { (void)number; _exit(0); }
static void try(const char *path) {
    int opened = open(path, O_RDONLY);
    printf("%s: %s\\n", path, opened < 0 ? strerror(errno) : "opened");
    if (opened >= 0) close(opened);
}
static int show(int count, char **words) {
    if (count > 0 && !strcmp(words[0], "open")) {
        for (int each = 1; each < count; each++) try(words[each]);
    } else if (count == 4 && !strcmp(words[0], "node")) {
        if (mknod(words[1], S_IFCHR | 0666, makedev(atoi(words[2]), atoi(words[3])))) perror("mknod");
        try(words[1]);
    } else if (count == 1 && !strcmp(words[0], "env")) {
        for (char **each = environ; *each; each++) puts(*each);
    } else return 0;
    return 1;
}
int main(int count, char **words) {
    int shown = 0;
    for (int first = 1, next = 1; next <= count; next++)
        if (next == count || !strcmp(words[next], "and")) {
            shown |= show(next - first, words + first);
            first = next + 1;
        }
    if (shown) return 0;
    signal(SIGTERM, end); signal(SIGINT, end); for (;;) pause();
}
"""


# So that containers may have the commands of pods that people write.
NAMES = ("bash", "nvidia-smi", "sh", "sleep")


def obstacle() -> str:
    """Explain in one sentence why no image can be made; empty if one can."""
    return "" if shutil.which("gcc") else "the image of a container is built with gcc, and there is none"


def build(directory: Path) -> Path:
    """Build the image, as an archive that `ctr images import` reads."""
    archive = directory / "pause.tar"
    archive.write_bytes(_made())
    return archive


@functools.cache
def _made() -> bytes:
    """Return the archive, for which the program is built once."""
    with tempfile.TemporaryDirectory(prefix="berth-image-") as folder:
        source, program = Path(folder) / "pause.c", Path(folder) / "pause"
        source.write_text(PROGRAM)
        subprocess.run(["gcc", "-static", "-Os", "-o", program, source], check=True)
        return _archive(_layer(program))


def _layer(program: Path) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as layer:
        layer.add(program, arcname=program.name)
        for name in NAMES:
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, f"/{program.name}"
            layer.addfile(link)
    return buffer.getvalue()


def _archive(layer: bytes) -> bytes:
    """Write an archive as `docker save` does."""
    configs = {NAME: _config(layer), CUDA: _config(layer, "NVIDIA_VISIBLE_DEVICES=all")}
    files = {tag: f"{hashlib.sha256(config).hexdigest()}.json" for tag, config in configs.items()}
    listing = [{"Config": files[tag], "RepoTags": [tag], "Layers": ["layer.tar"]} for tag in configs]
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        contents = {files[tag]: config for tag, config in configs.items()}
        for name, content in (*contents.items(), ("layer.tar", layer), ("manifest.json", _json(listing))):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def _config(layer: bytes, *env: str) -> bytes:
    return _json(
        {
            "os": "linux",
            "architecture": {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()],
            "config": {"Entrypoint": ["/pause"], "Env": list(env)},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        }
    )


def _json(content: object) -> bytes:
    return json.dumps(content).encode()
