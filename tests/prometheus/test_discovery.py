"""Which address the Service of Prometheus has, and when it is not clear."""

from typing import Any, Final

import msgspec
import pytest

from berth_crds.client import api
from berth_operator.prometheus import discovery, faults
from berth_operator.scheduling.policy import Prometheus
from support import stub

SOURCE: Final = Prometheus()
LIST: Final = "/api/v1/namespaces/monitoring/services"


def service(name: str = "prom", *ports: tuple[str, int], **spec: Any) -> dict[str, Any]:
    """Return a Service with ports by name."""
    listed = [{"name": port, "port": number} if port else {"port": number} for port, number in ports]
    return {"metadata": {"name": name}, "spec": {"type": "ClusterIP", "ports": listed} | spec}


def address(*services: Any, with_token: bool = False) -> str:
    """Return the address of the only one of some Services."""
    known = msgspec.convert(services, tuple[discovery.Service, ...])
    return discovery.address(known, SOURCE, with_token=with_token)


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        pytest.param(service("p", ("", 80)), "http://p.monitoring.svc:80", id="the only port"),
        pytest.param(service("p", ("api", 9090)), "http://p.monitoring.svc:9090", id="whatever its name"),
        pytest.param(
            service("p", ("reloader-web", 8080), ("web", 9090)), "http://p.monitoring.svc:9090", id="web"
        ),
        pytest.param(
            service("p", ("reloader-web", 8080), ("http-web", 9090)),
            "http://p.monitoring.svc:9090",
            id="http-web",
        ),
        pytest.param(service("p", ("https", 443)), "https://p.monitoring.svc:443", id="https by its name"),
        pytest.param(
            service("p", ports=[{"name": "web", "port": 9091, "appProtocol": "https"}]),
            "https://p.monitoring.svc:9091",
            id="https by its protocol",
        ),
        pytest.param(
            service("p", ports=[{"port": 53, "protocol": "UDP"}, {"port": 9090}]),
            "http://p.monitoring.svc:9090",
            id="a port that speaks no TCP",
        ),
        pytest.param(
            service("p", ("web", 80), type="ExternalName", externalName="prometheus.example.com."),
            "http://prometheus.example.com:80",
            id="the name of a host elsewhere",
        ),
    ],
)
def test_the_address_of_a_service(known: Any, expected: str) -> None:
    """By its name in the cluster, over TLS where the Service says so."""
    assert address(known) == expected


def test_a_token_goes_to_no_host_that_a_service_names() -> None:
    """Who may write Services would get it; an address of the cluster is used with one."""
    elsewhere = service("p", ("https", 443), type="ExternalName", externalName="prometheus.example.com")

    with pytest.raises(
        faults.Fault, match=r"the Service p leads to another host .* set spec.load.prometheus.url"
    ):
        address(elsewhere, with_token=True)
    assert address(service("p", ("https", 443)), with_token=True) == "https://p.monitoring.svc:443"


@pytest.mark.parametrize(
    ("known", "why"),
    [
        pytest.param(
            (),
            "there is no Service in namespace monitoring with the labels "
            "'app.kubernetes.io/name=prometheus': set namespace, serviceSelector or url",
            id="none",
        ),
        pytest.param(
            [service(name, ("web", 80)) for name in "edcba"],
            "there is more than one Service in namespace monitoring with the labels "
            "'app.kubernetes.io/name=prometheus' (a, b, c, …), and it is not clear which is meant: set a "
            "serviceSelector that only one has, or url",
            id="several",
        ),
        pytest.param(
            [service("p", ("grpc", 1), ("metrics", 2))],
            "the Service p has no port that is called web, http-web, http or https (there: grpc, metrics): "
            "set spec.load.prometheus.url",
            id="several ports, none of which is known",
        ),
        pytest.param(
            [service("p")],
            "the Service p has no port that is called web, http-web, http or https (there: none): set "
            "spec.load.prometheus.url",
            id="no port",
        ),
    ],
)
def test_what_is_not_clear_is_not_guessed(known: Any, why: str) -> None:
    """The sentence says what to set."""
    with pytest.raises(faults.Fault) as fault:
        address(*known)
    assert str(fault.value) == why


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        pytest.param(
            stub.status(403, "services is forbidden", reason="Forbidden"),
            "the operator may not list the Services of namespace monitoring: see "
            "manifests/prometheus/rbac.yaml, or set spec.load.prometheus.url",
            id="no right",
        ),
        pytest.param(
            stub.status(400, "unable to parse requirement", reason="BadRequest"),
            "its Service cannot be looked for: 400 BadRequest: unable to parse requirement",
            id="no selector",
        ),
    ],
)
async def test_a_list_that_is_refused_is_a_fault(answer: stub.Answer, why: str) -> None:
    """The server is asked once, for Services of that namespace with these labels."""
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        server.on("GET", LIST, answer)

        with pytest.raises(faults.Fault) as fault:
            await discovery.find(session, SOURCE)

        assert str(fault.value) == why
        (request,) = server.requests
        assert request.query["labelSelector"] == "app.kubernetes.io/name=prometheus"
