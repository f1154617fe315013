"""Finds the address of Prometheus by the labels of its Service.

It is found only where it is clear what is meant: one Service, and one port of it. Whoever may write
Services in the namespace that a policy names decides what is asked; no other namespace is looked at. Such a
person must not get the operator's token: a Service that leads out of the cluster is not used with one.
"""

from typing import Final

from berth_crds import text, wire
from berth_crds.client import api, errors, resources
from berth_crds.text import quoted
from berth_operator.prometheus import faults
from berth_operator.scheduling.policy import Prometheus

PORT_NAMES: Final = ("web", "http-web", "http", "https")  # The first that a Service has is taken.
MOST_SERVICES: Final = 8  # How many are read, to name them.
LONGEST_LIST: Final = 1 << 20  # Bytes.
MOST_NAMED: Final = 3
DEADLINE_SECONDS: Final = 5.0
RIGHTS: Final = "manifests/prometheus/rbac.yaml"
EXTERNAL: Final = "ExternalName"
HTTPS: Final = "https"
TCP: Final = "TCP"


class Port(wire.Struct, frozen=True):
    """A port of a Service."""

    port: int
    name: str = ""
    protocol: str = TCP
    app_protocol: str = ""


class ServiceSpec(wire.Struct, frozen=True):
    """What is read of a Service's spec."""

    type: str = ""
    external_name: str = ""
    ports: tuple[Port, ...] = ()


class Service(wire.Struct, frozen=True):
    """A Service."""

    metadata: wire.Meta
    spec: ServiceSpec = ServiceSpec()


class ServiceList(wire.Struct, frozen=True):
    """A list of Services."""

    items: tuple[Service, ...] = ()


async def find(session: api.Api, source: Prometheus, *, with_token: bool = False) -> str:
    """Return the address of the one Service that a policy means, or raise `Fault`.

    With a token, which is sent there, it is an address of the cluster.
    """
    path = resources.SERVICES.path(namespace=source.namespace)
    params = {"labelSelector": source.service_selector, "limit": f"{MOST_SERVICES}"}
    try:
        body = await session.read(path, params=params, most=LONGEST_LIST, deadline=DEADLINE_SECONDS)
        found = api.decode(body, ServiceList, path=path)
    except errors.Forbidden as error:
        raise faults.Fault(
            f"the operator may not list the Services of namespace {source.namespace}: see {RIGHTS}, or set "
            "spec.load.prometheus.url"
        ) from error
    except errors.ClientError as error:
        raise faults.Fault(f"its Service cannot be looked for: {error}") from error
    return address(found.items, source, with_token=with_token)


def address(services: tuple[Service, ...], source: Prometheus, *, with_token: bool = False) -> str:
    """Return the address of the only one of some Services, or raise `Fault`."""
    where = f"in namespace {source.namespace} with the labels {quoted(source.service_selector)}"
    if not services:
        raise faults.Fault(f"there is no Service {where}: set namespace, serviceSelector or url")
    if len(services) > 1:
        raise faults.Fault(
            f"there is more than one Service {where} ({_names(services)}), and it is not clear which is "
            "meant: set a serviceSelector that only one has, or url"
        )
    (service,) = services
    name, spec = service.metadata.name, service.spec
    port = _port(name, spec.ports)
    if spec.type == EXTERNAL and with_token:
        raise faults.Fault(
            f"the Service {name} leads to another host ({EXTERNAL}), to which no token is sent: set"
            " spec.load.prometheus.url"
        )
    host = spec.external_name if spec.type == EXTERNAL else f"{name}.{source.namespace}.svc"
    scheme = HTTPS if HTTPS in {port.name, port.app_protocol.lower()} else "http"
    return f"{scheme}://{host.rstrip('.')}:{port.port}"


def _names(services: tuple[Service, ...]) -> str:
    known = sorted(service.metadata.name for service in services)
    return text.line(", ".join([*known[:MOST_NAMED], *(["…"] if len(known) > MOST_NAMED else [])]))


def _port(name: str, ports: tuple[Port, ...]) -> Port:
    usable = [port for port in ports if port.protocol == TCP]
    if len(usable) == 1:
        return usable[0]
    by_name = {port.name: port for port in usable}
    for usual in PORT_NAMES:
        if usual in by_name:
            return by_name[usual]
    known = ", ".join(sorted(by_name)) or "none"
    raise faults.Fault(
        f"the Service {name} has no port that is called {', '.join(PORT_NAMES[:-1])} or {PORT_NAMES[-1]} "
        f"(there: {text.line(known)}): set spec.load.prometheus.url"
    )
