"""The page on loads from Prometheus says what is so."""

from typing import Final

import pytest

from berth_crds import wire
from berth_operator.engine.sampled_loads import Metric
from berth_operator.prometheus import client, discovery, queries
from testbed import shipped

PAGE: Final = (shipped.MANIFESTS / "operating.md").read_text()
SECTION: Final = " ".join(PAGE.split("### Loads from Prometheus")[1].split("\n## ")[0].split())
USUAL: Final = wire.PrometheusSource()


@pytest.mark.parametrize(
    "sentence",
    [
        f"asks every `intervalSeconds` ({USUAL.interval_seconds})",
        f"for `maxAgeSeconds` ({USUAL.max_age_seconds})",
        f"in `namespace` (`{USUAL.namespace}`) with the labels of `serviceSelector`",
        f"(`{USUAL.service_selector}`), and takes its only port",
        "the one called {}, {}, {} or {}".format(*(f"`{name}`" for name in discovery.PORT_NAMES)),
        f"without an answer within {client.DEADLINE_SECONDS:g} s",
        f"an answer has {client.LONGEST_ANSWER >> 20} MiB at most",
        f"kubectl apply -f {discovery.RIGHTS}",
        f"(`{queries.PATH}`)",
        f"`--{client.TOKEN_FLAG}`",
        f"`--{client.CA_FLAG}`",
        *(f"`{metric}`" for metric in Metric),
    ],
)
def test_its_words_are_those_of_the_code(sentence: str) -> None:
    """Who changes a default, a limit or a name changes the page, too."""
    assert sentence in SECTION


def test_the_right_that_it_names_is_shipped() -> None:
    """Under the path that faults name."""
    assert (shipped.ROOT / discovery.RIGHTS).is_file()
