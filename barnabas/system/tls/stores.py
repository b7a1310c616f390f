"""Keys and certificates, from files (PEM or PKCS12) or from PEM in options.

In: where they are, passwords. Out: PEM, which is all that OpenSSL loads from Python.
Always: the contents of a file decide about its format, not its name. A JKS file is refused with the
command that converts it. No error repeats a key or a password.
"""

import ssl
from typing import NamedTuple

from barnabas.model.errors import Code, Failed

SIZE_MAX = 8 << 20
_CERTIFICATE = (b"-----BEGIN CERTIFICATE-----", b"-----END CERTIFICATE-----")
_JKS = b"\xfe\xed\xfe\xed"
_PKCS12 = b"\x30"
_CONVERT = (
    "keytool -importkeystore -srckeystore {path} -destkeystore {path}.p12 -deststoretype PKCS12"
)


class KeyStore(NamedTuple):
    """A private key and its certificates, as PEM. `own`: the first certificate, in DER."""

    pem: bytes
    password: str | None
    own: bytes

    def __repr__(self) -> str:
        return "KeyStore(...)"


def read_key_store(
    location: str | None,
    key: str | None,
    chain: str | None,
    store_password: str | None,
    key_password: str | None,
    type_: str | None = None,
) -> KeyStore | None:
    """None: there is neither a file nor a key. `type_`: the format that the options declare."""
    if location is None:
        if key is None and chain is None:
            return None
        if key is None or chain is None:
            missing = "ssl.keystore.key" if key is None else "ssl.keystore.certificate.chain"
            raise invalid_store("the key store in the options", f"{missing} is missing")
        return _key_store(
            "the key store in the options", (key + "\n" + chain).encode(), key_password
        )
    data = read_store_file(location, type_)
    if data.startswith(_PKCS12):
        return _from_pkcs12(location, data, store_password or key_password)
    return _key_store(location, data, key_password or store_password)


def _key_store(name: str, pem: bytes, password: str | None) -> KeyStore:
    certificates = certificates_of(name, pem)
    if b"PRIVATE KEY-----" not in pem:
        raise invalid_store(name, "it has no private key: expected PEM with a key and certificates")
    return KeyStore(pem, password, certificates[0])


def _from_pkcs12(name: str, data: bytes, password: str | None) -> KeyStore:
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    found = _pkcs12(name, data, password)
    if found.key is None or found.cert is None:
        raise invalid_store(name, "it has no private key with a certificate")
    own = found.cert.certificate
    pem = found.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    for each in (own, *(extra.certificate for extra in found.additional_certs)):
        pem += each.public_bytes(Encoding.PEM)
    return KeyStore(pem, None, own.public_bytes(Encoding.DER))


def read_trust_store(
    location: str | None,
    certificates: str | None,
    password: str | None,
    type_: str | None = None,
) -> str | None:
    """PEM of the trusted certificates. None: there is neither a file nor certificates."""
    if location is None:
        if certificates is None:
            return None
        name, data = "the trust store in the options", certificates.encode()
    else:
        name, data = location, read_store_file(location, type_)
    if data.startswith(_PKCS12):
        from cryptography.hazmat.primitives.serialization import Encoding

        found = _pkcs12(name, data, password)
        pem = b"".join(
            each.certificate.public_bytes(Encoding.PEM) for each in found.additional_certs
        )
        if found.cert is not None:
            pem += found.cert.certificate.public_bytes(Encoding.PEM)
        data = pem
    return "".join(map(ssl.DER_cert_to_PEM_cert, certificates_of(name, data)))


def read_store_file(path: str, type_: str | None = None) -> bytes:
    """Also a PKCS12 file that is declared as JKS, as Java does."""
    try:
        with open(path, "rb") as file:
            data = file.read(SIZE_MAX + 1)
    except OSError as problem:
        raise invalid_store(path, f"it cannot be read: {problem.strerror}") from None
    if len(data) > SIZE_MAX:
        raise invalid_store(path, f"it is larger than {SIZE_MAX} bytes")
    if data.startswith(_JKS):
        raise invalid_store(
            path, f"it is a JKS file, which only Java reads: {_CONVERT.format(path=path)}"
        )
    found = "PKCS12" if data.startswith(_PKCS12) else "PEM"
    if type_ not in (None, found) and not (type_ == "JKS" and found == "PKCS12"):
        raise invalid_store(path, f"it is declared as {type_}, but looks like {found}")
    return data


def certificates_of(name: str, pem: bytes) -> list[bytes]:
    """The certificates in PEM, in DER."""
    found = []
    begin, end = _CERTIFICATE
    at = pem.find(begin)
    while at >= 0:
        stop = pem.find(end, at)
        if stop < 0:
            break
        text = pem[at : stop + len(end)].decode("ascii", "replace")
        try:
            found.append(ssl.PEM_cert_to_DER_cert(text))
        except ValueError:
            raise invalid_store(name, "a certificate in it is not valid PEM") from None
        at = pem.find(begin, stop)
    if not found:
        raise invalid_store(name, "it has no certificate: expected PEM or PKCS12")
    return found


def _pkcs12(name: str, data: bytes, password: str | None):  # type: ignore[no-untyped-def]
    try:
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
    except ImportError:
        raise invalid_store(
            name,
            "PKCS12 files need the package cryptography: pip install 'barnabas[tls]', or convert"
            f" it to PEM: openssl pkcs12 -in {name} -out {name}.pem -noenc",
        ) from None
    try:
        return load_pkcs12(data, password.encode() if password else None)
    except ValueError:
        raise invalid_store(name, "it is not a PKCS12 file, or the password is wrong") from None


def invalid_store(name: str, problem: str) -> Failed:
    return Failed(Code.INVALID_CONFIG, f"{name}: {problem}")
