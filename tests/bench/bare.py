"""A loop that only posts Bindings: the ceiling of an API server, for comparison.

It decides nothing and knows every answer beforehand. With a term its Bindings carry all
that Berth's do, so that the fence and the policies judge them; without one they carry a
node and nothing else. When it is done it waits to be ended, so that its cost can be read.
"""

import argparse
import asyncio
import itertools
import json
from collections.abc import Iterator
from typing import Any, Final

import aiohttp
import uvloop

from berth_agent import simulated
from berth_crds import allocation, names
from berth_crds.client import connection
from testbed import sessions

IN_FLIGHT: Final = 128
ATTEMPTS: Final = 100
PAUSE_SECONDS: Final = 0.1
DONE: Final = "every Binding was posted"


def binding(pod: dict[str, Any], node: str, card: Any, term: str) -> bytes:
    """Write one Binding."""
    meta = {"name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
    if term:
        share = allocation.Share(card.uuid, card.minor, 100, card.memory)
        record = allocation.of(node, {"main": {"gpu": [share]}})
        meta |= {
            "labels": {names.FENCED_LABEL: "true"},
            "annotations": allocation.annotations(record, term=term),
        }
    return json.dumps({"metadata": meta, "target": {"kind": "Node", "name": node}}).encode()


def places(count: int, shape: str) -> Iterator[tuple[str, Any]]:
    """Return the cards of all nodes, the nodes in turn."""
    machines = [
        (name, simulated.machine(name, shape).cards) for name in map("node-{:05}".format, range(count))
    ]
    for at in itertools.count():
        for name, cards in machines:
            yield name, cards[at % len(cards)]


async def post_all(chosen: argparse.Namespace) -> None:
    """Post a Binding for each pod of the namespace."""
    link = connection.load(chosen.kubeconfig)
    headers = {"Authorization": await link.authorization(), "Content-Type": "application/json"}
    base = f"{link.server}/api/v1/namespaces/{chosen.namespace}/pods"
    async with sessions.session(tls=link.trust, headers=headers) as session:
        async with session.get(base) as answer:
            pods = (await answer.json())["items"]
        due = [
            (f"{base}/{pod['metadata']['name']}/binding", binding(pod, node, card, chosen.term))
            for pod, (node, card) in zip(pods, places(chosen.nodes, chosen.shape), strict=False)
        ]
        await _admitted(session, *due[0])
        work = iter(due[1:])
        await asyncio.gather(*(_post(session, work) for _ in range(IN_FLIGHT)))
    print(DONE, flush=True)
    await asyncio.Event().wait()


async def _admitted(session: aiohttp.ClientSession, url: str, body: bytes) -> None:
    """Post one Binding until it is let through: the fence may not have read our term yet."""
    for _ in range(ATTEMPTS):
        async with session.post(url, data=body) as answer:
            if answer.ok:
                return
        await asyncio.sleep(PAUSE_SECONDS)


async def _post(session: aiohttp.ClientSession, work: Iterator[tuple[str, bytes]]) -> None:
    for url, body in work:
        async with session.post(url, data=body) as answer:
            text = await answer.read()
            if not answer.ok:
                raise SystemExit(f"{url}: {answer.status} {text.decode()}")


def main() -> None:
    """Run until ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--namespace", required=True)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--shape", required=True)
    parser.add_argument("--term", default="", help="the leader's term, which the fence compares")
    uvloop.run(post_all(parser.parse_args()))


if __name__ == "__main__":
    main()
