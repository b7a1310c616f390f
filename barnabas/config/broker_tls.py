"""Broker options about TLS: keys, trusted certificates, and who a client with a certificate is.

Names and meanings are Kafka's. Each may be set for one listener (`listener.name.NAME.ssl...`).
Always: none can be changed by a request: a file that changes is read again instead.
Not here: how files are read (system/tls/stores.py).
"""

from collections.abc import Mapping
from typing import Any, TypeVar

from barnabas.config.kinds import Bool, Enum, Kind, List, Password, Text
from barnabas.config.listener_options import settings_of
from barnabas.config.option import Option, Scope, declared
from barnabas.config.resolve import Config, Layers

T = TypeVar("T")
TLS_VERSIONS = ("TLSv1.2", "TLSv1.3")
STORE_TYPES = ("PEM", "PKCS12", "JKS")


def _option(name: str, kind: Kind[Any], default: T, doc: str) -> Option[T]:
    return Option(name, kind, default, Scope.BROKER, True, doc)


class TlsOptions(Config):
    """TLS of the listeners with SSL or SASL_SSL, and between brokers."""

    ssl_keystore_location: Option[str | None] = _option(
        "ssl.keystore.location",
        Text(),
        None,
        "The file with the broker's private key and its certificates: PEM or PKCS12. It is read "
        "again when it changes.",
    )
    ssl_keystore_type: Option[str | None] = _option(
        "ssl.keystore.type",
        Enum(*STORE_TYPES),
        None,
        "The format of ssl.keystore.location; unset: what its contents are. JKS files are refused "
        "with the command that converts them.",
    )
    ssl_keystore_password: Option[str | None] = _option(
        "ssl.keystore.password", Password(), None, "The password of a PKCS12 key store."
    )
    ssl_key_password: Option[str | None] = _option(
        "ssl.key.password", Password(), None, "The password of an encrypted private key."
    )
    ssl_keystore_key: Option[str | None] = _option(
        "ssl.keystore.key",
        Password(),
        None,
        "The private key itself, as PEM (PKCS#8), instead of ssl.keystore.location.",
    )
    ssl_keystore_certificate_chain: Option[str | None] = _option(
        "ssl.keystore.certificate.chain",
        Password(),
        None,
        "The certificates for ssl.keystore.key, as PEM: the broker's own, then those that signed.",
    )
    ssl_truststore_location: Option[str | None] = _option(
        "ssl.truststore.location",
        Text(),
        None,
        "The file with the certificates that sign clients and other brokers: PEM or PKCS12. It is "
        "read again when it changes.",
    )
    ssl_truststore_type: Option[str | None] = _option(
        "ssl.truststore.type",
        Enum(*STORE_TYPES),
        None,
        "The format of ssl.truststore.location; unset: what its contents are.",
    )
    ssl_truststore_password: Option[str | None] = _option(
        "ssl.truststore.password", Password(), None, "The password of a PKCS12 trust store."
    )
    ssl_truststore_certificates: Option[str | None] = _option(
        "ssl.truststore.certificates",
        Password(),
        None,
        "The trusted certificates themselves, as PEM, instead of ssl.truststore.location.",
    )
    ssl_client_auth = _option(
        "ssl.client.auth",
        Enum("none", "requested", "required"),
        "none",
        "Whether clients present a certificate: no, if they have one, or always. Its subject is "
        "their user; without a certificate they are User:ANONYMOUS.",
    )
    ssl_enabled_protocols = _option(
        "ssl.enabled.protocols",
        List(*TLS_VERSIONS),
        TLS_VERSIONS,
        "The versions of TLS that are accepted.",
    )
    ssl_protocol = _option(
        "ssl.protocol",
        Enum(*TLS_VERSIONS),
        "TLSv1.3",
        "The newest version of TLS that is used.",
    )
    ssl_cipher_suites = _option(
        "ssl.cipher.suites",
        List(),
        (),
        "The cipher suites, by their IANA names; empty: OpenSSL's defaults. Without a suite of a "
        "version, that version is not used. Suites of TLS 1.3 are used all or none.",
    )
    ssl_endpoint_identification_algorithm = _option(
        "ssl.endpoint.identification.algorithm",
        Enum("https", "HTTPS", ""),
        "https",
        "Whether a connection to another broker checks its host name (https) or not (empty).",
    )
    ssl_principal_mapping_rules = _option(
        "ssl.principal.mapping.rules",
        Text(),
        "DEFAULT",
        "The user of a certificate's distinguished name: `RULE:pattern/replacement/[LU]` or "
        "DEFAULT, between commas; the first that matches decides, and without one the connection "
        "is refused.",
    )
    ssl_allow_dn_changes = _option(
        "ssl.allow.dn.changes",
        Bool(),
        False,
        "Whether a certificate that replaces another may have another distinguished name.",
    )
    ssl_allow_san_changes = _option(
        "ssl.allow.san.changes",
        Bool(),
        False,
        "Whether a certificate that replaces another may have other alternative names.",
    )


class ListenerTlsConfig(TlsOptions):
    """The options about TLS that one listener has."""

    def __init__(self, layers: Layers, listener: str) -> None:
        super().__init__(OPTIONS, settings_of(layers, listener), layers)


OPTIONS: Mapping[str, Option[Any]] = {option.name: option for option in declared(TlsOptions)}
