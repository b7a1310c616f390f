"""Certificates for development: a certificate authority, and what it signs.

In: a directory, host names, user names. Out: PEM and PKCS12 files.
Always: keys can be read by their owner only. An authority that exists is used again, so that users
can be added later; no file is replaced.
"""

import ipaddress
import os
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    EllipticCurvePrivateKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY, AUTHORITY_KEY = "ca.pem", "ca-key.pem"
PKCS12_PASSWORD = "changeit"  # noqa: S105 - Java's own default, for files of development
ORGANISATION = "Barnabas development"


class DevAuthority:
    """A certificate authority in a directory."""

    def __init__(self, directory: str, days: int) -> None:
        self._directory = directory
        self._days = days
        os.makedirs(directory, mode=0o700, exist_ok=True)
        path = os.path.join(directory, AUTHORITY)
        if os.path.exists(path):
            with open(path, "rb") as file:
                self._certificate = x509.load_pem_x509_certificate(file.read())
            with open(os.path.join(directory, AUTHORITY_KEY), "rb") as file:
                key = load_pem_private_key(file.read(), None)
            assert isinstance(key, EllipticCurvePrivateKey)
            self._key = key
        else:
            self._key = generate_private_key(SECP256R1())
            self._certificate = self._new_authority()
            self._write(AUTHORITY_KEY, _key_pem(self._key))
            self._write(AUTHORITY, self._certificate.public_bytes(Encoding.PEM), 0o644)

    def server(self, name: str, hosts: Iterable[str]) -> bool:
        """For brokers, which are clients of each other too. False: it exists already."""
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        return self._issue(name, _names(hosts), usages)

    def user(self, name: str) -> bool:
        """For a client. False: it exists already."""
        return self._issue(name, [], [ExtendedKeyUsageOID.CLIENT_AUTH])

    def _new_authority(self) -> x509.Certificate:
        name = _subject("certificate authority")
        public = self._key.public_key()
        return (
            self._builder(name, name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(signs=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .sign(self._key, SHA256())
        )

    def _issue(
        self,
        name: str,
        names: list[x509.GeneralName],
        usages: list[x509.ObjectIdentifier],
    ) -> bool:
        if os.path.exists(os.path.join(self._directory, f"{name}.pem")):
            return False
        key = generate_private_key(SECP256R1())
        builder = (
            self._builder(_subject(name), self._certificate.subject, key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = builder.sign(self._key, SHA256())
        chain = certificate.public_bytes(Encoding.PEM) + self._certificate.public_bytes(
            Encoding.PEM
        )
        self._write(f"{name}.pem", _key_pem(key) + chain)
        encryption = BestAvailableEncryption(PKCS12_PASSWORD.encode())
        self._write(
            f"{name}.p12",
            pkcs12.serialize_key_and_certificates(
                name.encode(), key, certificate, [self._certificate], encryption
            ),
        )
        return True

    def _builder(
        self, subject: x509.Name, issuer: x509.Name, key: EllipticCurvePrivateKey
    ) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))  # clocks differ
            .not_valid_after(now + timedelta(days=self._days))
        )

    def _write(self, name: str, data: bytes, mode: int = 0o600) -> None:
        path = os.path.join(self._directory, name)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with open(fd, "wb") as file:
            file.write(data)


def _subject(name: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, ORGANISATION),
            x509.NameAttribute(NameOID.COMMON_NAME, name),
        ]
    )


def _names(hosts: Iterable[str]) -> list[x509.GeneralName]:
    found: list[x509.GeneralName] = []
    for host in dict.fromkeys(hosts):
        try:
            found.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            found.append(x509.DNSName(host))
    return found


def _key_usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _key_pem(key: EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
