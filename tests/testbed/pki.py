"""The certificate authority of one cluster, and everything it signs.

A Kubernetes API server knows people and components by client certificates: the common name is the user, the
organisation is the group. Each cluster gets a fresh authority that lives as long as its temporary
directory. Keys are elliptic (P-256), since making RSA keys would take longer than starting the server.
"""

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from testbed import pod_network

LIFETIME = dt.timedelta(days=7)

# Python 3.13 and newer trust no authority that does not say this of itself.
MAY_SIGN = x509.KeyUsage(
    key_cert_sign=True,
    crl_sign=True,
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    encipher_only=False,
    decipher_only=False,
)

# All names under which clients in tests reach the server, directly, through the proxy or from pods, and those
# real clusters use.
SERVER_NAMES = (
    x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
    x509.IPAddress(ipaddress.ip_address("10.0.0.1")),
    x509.IPAddress(ipaddress.ip_address(pod_network.GATEWAY)),
    x509.DNSName("localhost"),
    x509.DNSName("kubernetes"),
    x509.DNSName("kubernetes.default"),
    x509.DNSName("kubernetes.default.svc"),
    x509.DNSName("kubernetes.default.svc.cluster.local"),
)


@dataclass(frozen=True, slots=True)
class Pair:
    """The files of a certificate and its private key."""

    certificate: Path
    key: Path


class Authority:
    """Signs certificates into one directory."""

    def __init__(self, directory: Path) -> None:
        """Make a new authority whose files lie in `directory`."""
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("berth-testbed-ca")
        certificate = (
            _builder(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(MAY_SIGN, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.certificate = directory / "ca.crt"
        self.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def server(self, name: str) -> Pair:
        """Sign a server certificate for every name of the API server."""
        return self._sign(_name(name), file=name, usage=ExtendedKeyUsageOID.SERVER_AUTH, names=SERVER_NAMES)

    def client(self, user: str, *, file: str, group: str | None = None) -> Pair:
        """Sign a client certificate for `user`, member of `group`."""
        return self._sign(_name(user, group), file=file, usage=ExtendedKeyUsageOID.CLIENT_AUTH, names=())

    def signing_key(self, file: str) -> Path:
        """Make a bare private key, such as service-account tokens are signed with."""
        return self._write_key(ec.generate_private_key(ec.SECP256R1()), file=file)

    def _sign(
        self,
        subject: x509.Name,
        *,
        file: str,
        usage: x509.ObjectIdentifier,
        names: tuple[x509.GeneralName, ...],
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(subject, self._name, key.public_key()).add_extension(
            x509.ExtendedKeyUsage([usage]), critical=False
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        signed = builder.add_extension(authority, critical=False).sign(self._key, hashes.SHA256())
        certificate = self._directory / f"{file}.crt"
        certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        return Pair(certificate=certificate, key=self._write_key(key, file=file))

    def _write_key(self, key: ec.EllipticCurvePrivateKey, *, file: str) -> Path:
        path = self._directory / f"{file}.key"
        path.touch(mode=0o600)
        # The old format, since the API server cannot read the public half for service accounts out of the
        # new one.
        layout = serialization.PrivateFormat.TraditionalOpenSSL
        path.write_bytes(key.private_bytes(serialization.Encoding.PEM, layout, serialization.NoEncryption()))
        return path


def _name(user: str, group: str | None = None) -> x509.Name:
    words = [x509.NameAttribute(NameOID.COMMON_NAME, user)]
    if group:
        words.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
    return x509.Name(words)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + LIFETIME)
    )
