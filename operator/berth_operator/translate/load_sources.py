"""From which source a policy takes the load of cards, or the reason why it cannot be.

The schema refuses most of what is refused here, too; a policy may be older than the schema.
"""

import urllib.parse
from typing import Final

from berth_crds import schema_limits, vocabulary, wire
from berth_crds.text import quoted
from berth_operator.scheduling.policy import Prometheus
from berth_operator.translate import label_selectors

PLACE: Final = "spec.load.prometheus"


def read(rules: wire.LoadRules) -> Prometheus | str | None:
    """Return where Prometheus is, None where agents are the source, or a sentence on what is wrong."""
    if rules.source not in set(vocabulary.LoadSource):
        known = ", ".join(vocabulary.LoadSource)
        return f"spec.load.source {quoted(rules.source)} is not known (known: {known})"
    written = rules.prometheus or wire.PrometheusSource()
    if fault := _fault(written):
        return fault
    if rules.source == vocabulary.LoadSource.AGENTS:
        return None
    return Prometheus(
        url=written.url.rstrip("/"),
        namespace=written.namespace,
        service_selector=written.service_selector,
        metrics=vocabulary.MetricNames(written.metrics),
        interval_seconds=float(written.interval_seconds),
        max_age_seconds=float(written.max_age_seconds),
    )


def _fault(written: wire.PrometheusSource) -> str:
    """Return what is wrong with what a policy says of Prometheus; empty if nothing."""
    if written.url and (fault := url_fault(written.url)):
        return f"{PLACE}.url {fault}"
    if not schema_limits.DNS_LABEL.matches(written.namespace):
        return f"{PLACE}.namespace {quoted(written.namespace)} is no name of a namespace"
    if not 0 < len(written.service_selector.strip()) <= schema_limits.LONGEST_SELECTOR:
        most = schema_limits.LONGEST_SELECTOR
        return f"{PLACE}.serviceSelector must have from 1 to {most} characters, such as app=prometheus"
    if not label_selectors.is_selector(written.service_selector):
        return (
            f"{PLACE}.serviceSelector {quoted(written.service_selector)} is no selector of labels; "
            "write for instance app=prometheus"
        )
    if written.metrics not in set(vocabulary.MetricNames):
        known = ", ".join(vocabulary.MetricNames)
        return f"{PLACE}.metrics {quoted(written.metrics)} is not known (known: {known})"
    if not 0 < written.interval_seconds < written.max_age_seconds:
        return (
            f"{PLACE}.intervalSeconds must be positive and less than maxAgeSeconds, "
            f"{written.max_age_seconds}, not {written.interval_seconds}"
        )
    return ""


def url_fault(url: str) -> str:
    """Return what is wrong with an address of Prometheus, without the address; empty if nothing."""
    if len(url) > schema_limits.LONGEST_URL:
        return f"has {len(url)} characters; {schema_limits.LONGEST_URL} are the most"
    try:
        parts = urllib.parse.urlsplit(url)
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError:
        has_host = False
    if not has_host or not url.isascii() or not url.isprintable() or " " in url:
        return "is no address; write for instance http://prometheus-server.monitoring.svc"
    if (scheme := url.partition("://")[0]) not in {"http", "https"}:
        return f"begins with {quoted(scheme)}; only http:// and https:// are asked"
    if "@" in parts.netloc:
        return "has credentials, which a policy would show to many; use --prometheus-token-file"
    if "?" in url or "#" in url:
        return "has a query or a fragment; write only the address and the path before /api/v1"
    return ""
