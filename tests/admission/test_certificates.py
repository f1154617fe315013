"""The certificate of the webhook is renewed in time, and nothing else than a good one is kept."""

import dataclasses
import datetime as dt
from typing import Final

import pytest

from berth_operator.admission import certificates

NOW: Final = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
HOSTS: Final = certificates.hosts("berth-system")
SERVING: Final = certificates.make(HOSTS, NOW)
OTHER: Final = certificates.make(HOSTS, NOW)


@pytest.mark.parametrize(("days", "due"), [(0, False), (59, False), (61, True), (91, True)])
def test_it_is_renewed_a_month_before_its_end(days: int, *, due: bool) -> None:
    """So that whatever is in the way can be mended before the API server refuses it."""
    assert certificates.is_due(SERVING, HOSTS, NOW + dt.timedelta(days=days)) == due


@pytest.mark.parametrize(
    "change",
    [{"certificate": b""}, {"key": b""}, {"key": OTHER.key}, {"certificate": b"-----BEGIN", "key": b"\0"}],
    ids=["no certificate", "no key", "another's key", "rubbish"],
)
def test_what_cannot_be_served_is_made_anew(change: dict[str, bytes]) -> None:
    """Whoever spoils the Secret gets a good one back."""
    assert certificates.is_due(dataclasses.replace(SERVING, **change), HOSTS, NOW)


def test_a_certificate_for_other_names_is_made_anew() -> None:
    """The API server would refuse it, as that of an operator in another namespace."""
    assert certificates.is_due(SERVING, certificates.hosts("gpu"), NOW)


def test_only_certificates_that_have_not_ended_stay_trusted() -> None:
    """A bundle that cannot be read trusts nobody."""
    later = certificates.make(HOSTS, NOW + dt.timedelta(days=60))
    bundle = SERVING.certificate + later.certificate

    assert certificates.still_valid(bundle, NOW) == [SERVING.certificate, later.certificate]
    assert certificates.still_valid(bundle, NOW + dt.timedelta(days=91)) == [later.certificate]
    assert certificates.still_valid(b"", NOW) == certificates.still_valid(b"\0", NOW) == []
