"""The webhook's certificate: made here, because nobody but the API server has to trust it.

It signs itself, so it is also what the API server is told to trust. A new one is made long before the old one
ends, and both are trusted meanwhile.
"""

import dataclasses
import datetime as dt
from collections.abc import Collection, Sequence
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME: Final = dt.timedelta(days=90)
RENEWED_BEFORE: Final = dt.timedelta(days=30)  # Before its end: time to mend what is in the way.
CLOCK_SKEW: Final = dt.timedelta(hours=1)
SERVICE: Final = "berth-webhook"


@dataclasses.dataclass(frozen=True, slots=True)
class ServingCertificate:
    """A certificate and its key, as PEM."""

    certificate: bytes
    key: bytes


def hosts(namespace: str) -> tuple[str, ...]:
    """Return how the API server calls the webhook: by its Service, or by a URL on its own machine."""
    return f"{SERVICE}.{namespace}.svc", "localhost"


def make(hosts: Sequence[str], now: dt.datetime) -> ServingCertificate:
    """Return a new certificate that signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0])])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return ServingCertificate(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
    )


def is_due(serving: ServingCertificate, hosts: Collection[str], now: dt.datetime) -> bool:
    """Whether a certificate ends soon, is not for us, or is none that can be served with its key."""
    try:
        certificate = x509.load_pem_x509_certificate(serving.certificate)
        key = serialization.load_pem_private_key(serving.key, password=None)
        named = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, TypeError, x509.ExtensionNotFound):
        return True
    theirs = key.public_key() != certificate.public_key()
    foreign = not set(hosts) <= set(named.get_values_for_type(x509.DNSName))
    return theirs or foreign or certificate.not_valid_after_utc - now < RENEWED_BEFORE


def still_valid(bundle: bytes, now: dt.datetime) -> list[bytes]:
    """Return those certificates of a bundle that have not ended; none if it cannot be read."""
    try:
        found = x509.load_pem_x509_certificates(bundle)
    except ValueError:
        return []
    return [one.public_bytes(serialization.Encoding.PEM) for one in found if one.not_valid_after_utc > now]
