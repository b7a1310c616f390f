"""The settings of OpenSSL for connections: versions, cipher suites, keys, and whom to trust.

In: stores, options as text. Out: an `ssl.SSLContext` for accepted or for opened connections.
Always: TLS 1.2 and 1.3 only, without renegotiation and compression. A client checks the certificate
and the host name of the broker unless an option switches this off.
"""

import os
import ssl
from collections.abc import Sequence
from contextlib import suppress

from barnabas.model.errors import Code, Failed
from barnabas.system.tls.stores import KeyStore, invalid_store

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


def server_context(
    keys: KeyStore | None,
    trusted: str | None,
    client_auth: str = "none",
    versions: Sequence[str] = tuple(_VERSIONS),
    suites: Sequence[str] = (),
) -> ssl.SSLContext:
    """For connections that a broker accepts. `client_auth`: as ssl.client.auth."""
    if keys is None:
        raise Failed(
            Code.INVALID_CONFIG,
            "TLS needs a key and a certificate: set ssl.keystore.location to a PEM or PKCS12 file",
        )
    if trusted is None and client_auth != "none":
        raise Failed(
            Code.INVALID_CONFIG,
            f"ssl.client.auth={client_auth} needs the certificates that sign clients: set"
            " ssl.truststore.location",
        )
    context = _context(ssl.PROTOCOL_TLS_SERVER, versions, suites)
    context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    context.num_tickets = 1
    _load_keys(context, keys)
    if trusted is not None:
        context.load_verify_locations(cadata=trusted)
    context.verify_mode = _AUTH[client_auth]
    return context


def client_context(
    keys: KeyStore | None,
    trusted: str | None,
    *,
    check_host: bool = True,
    verify: bool = True,
    versions: Sequence[str] = tuple(_VERSIONS),
    suites: Sequence[str] = (),
) -> ssl.SSLContext:
    """For connections that a client opens. `trusted`: None means the system's certificates."""
    context = _context(ssl.PROTOCOL_TLS_CLIENT, versions, suites)
    context.check_hostname = check_host and verify
    context.verify_mode = ssl.CERT_REQUIRED if verify else ssl.CERT_NONE
    if trusted is not None:
        context.load_verify_locations(cadata=trusted)
    elif verify:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if keys is not None:
        _load_keys(context, keys)
    return context


def _context(protocol: int, versions: Sequence[str], suites: Sequence[str]) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    wanted = [_VERSIONS[each] for each in versions]
    if suites:
        old = [each for each in suites if _is_of_tls_1_2(each)]
        if len(old) == len(suites):
            wanted = [each for each in wanted if each is ssl.TLSVersion.TLSv1_2]
        elif not old:
            wanted = [each for each in wanted if each is ssl.TLSVersion.TLSv1_3]
        _set_suites(context, old)
    if not wanted:
        raise Failed(
            Code.INVALID_CONFIG,
            "ssl.enabled.protocols and ssl.cipher.suites have no version of TLS in common",
        )
    context.minimum_version = min(wanted)
    context.maximum_version = max(wanted)
    return context


def _is_of_tls_1_2(suite: str) -> bool:
    """IANA names the suites of TLS 1.3 without the key exchange."""
    return "_WITH_" in suite or "-" in suite


def _set_suites(context: ssl.SSLContext, suites: Sequence[str]) -> None:
    if not suites:
        return
    names = [_openssl_name(each) for each in suites]
    try:
        context.set_ciphers(":".join(names))
    except ssl.SSLError:
        raise Failed(
            Code.INVALID_CONFIG,
            f"ssl.cipher.suites: OpenSSL has none of {', '.join(suites)[:300]}",
        ) from None
    known = {each["name"] for each in context.get_ciphers()}
    unknown = [suite for suite, name in zip(suites, names, strict=True) if name not in known]
    if unknown:
        raise Failed(
            Code.INVALID_CONFIG, f"ssl.cipher.suites: OpenSSL has no {', '.join(unknown)[:300]}"
        )


def _openssl_name(suite: str) -> str:
    """TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 is ECDHE-RSA-AES128-GCM-SHA256 there."""
    if "_WITH_" not in suite:
        return suite
    exchange, _, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    cipher = cipher.replace("AES_128", "AES128").replace("AES_256", "AES256")
    cipher = cipher.removesuffix("_SHA256") if "CHACHA20" in cipher else cipher
    cipher = cipher.replace("_CBC_", "_")
    start = "" if exchange == "RSA" else exchange + "_"
    return (start + cipher).replace("_", "-")


def _load_keys(context: ssl.SSLContext, keys: KeyStore) -> None:
    """`load_cert_chain` takes files only: this one is in memory, and nobody else can open it."""
    fd = os.memfd_create("keys", os.MFD_CLOEXEC)
    try:
        os.write(fd, keys.pem)
        context.load_cert_chain(f"/proc/self/fd/{fd}", password=keys.password or _no_password)
    except (ssl.SSLError, ValueError, TypeError) as problem:
        raise invalid_store("the key store", _key_problem(problem, keys)) from None
    finally:
        with suppress(OSError):
            os.close(fd)


def _no_password() -> str:
    """OpenSSL would ask for one on the terminal."""
    return ""


def _key_problem(problem: Exception, keys: KeyStore) -> str:
    reason = getattr(problem, "reason", None) or ""
    if reason == "KEY_VALUES_MISMATCH":
        return "the private key does not belong to the first certificate"
    if b"ENCRYPTED" in keys.pem:
        return "the private key cannot be decrypted: is ssl.key.password right?"
    return f"the private key or the certificates cannot be used: {reason or type(problem).__name__}"


def describe(problem: ssl.SSLError) -> str:
    """Why a handshake failed, in words."""
    if isinstance(problem, ssl.SSLCertVerificationError):
        return f"the certificate is not accepted: {problem.verify_message}"
    known = _REASONS.get(problem.reason or "")
    if known is not None:
        return known
    return (problem.reason or str(problem) or type(problem).__name__).replace("_", " ").lower()


_REASONS = {
    "WRONG_VERSION_NUMBER": "the other side does not speak TLS, or not this version",
    "HTTP_REQUEST": "the other side speaks HTTP, not Kafka's protocol over TLS",
    "UNSUPPORTED_PROTOCOL": "the versions of TLS have none in common",
    "NO_SHARED_CIPHER": "the cipher suites have none in common",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client has no certificate, and ssl.client.auth is"
    " required",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the broker requires a certificate of the client: set"
    " ssl.keystore.location, or ssl.certificate.location and ssl.key.location",
    "TLSV1_ALERT_UNKNOWN_CA": "the other side does not trust the certificate that signed this one",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the other side does not accept the certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the other side does not accept the certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the other side says that the certificate has expired",
    "TLSV1_ALERT_PROTOCOL_VERSION": "the versions of TLS have none in common",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "the versions or cipher suites have none in common",
}
