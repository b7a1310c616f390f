"""Client options about security: the protocol, TLS, and with what a client logs in.

Names are Kafka's, or librdkafka's where Kafka has only `sasl.jaas.config`.
Always: a secret may come from a file, so that it is in no program and on no command line.
"""

from typing import TypeVar

from barnabas.config.kinds import Bool, Enum, Kind, List, Password, Text
from barnabas.config.option import Option, Scope
from barnabas.config.resolve import Config

T = TypeVar("T")
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


def _option(
    name: str, kind: Kind[T], default: T, doc: str, synonyms: tuple[str, ...] = ()
) -> Option[T]:
    return Option(name, kind, default, Scope.CLIENT, True, doc, synonyms)


class SecurityClientOptions(Config):
    """How a client connects, and who it is."""

    security_protocol = _option(
        "security.protocol",
        Enum(*PROTOCOLS),
        "PLAINTEXT",
        "The protocol of the broker's listener: with TLS (SSL), with a login (SASL_PLAINTEXT), "
        "or both (SASL_SSL).",
    )
    sasl_mechanism = _option(
        "sasl.mechanism",
        Enum("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"),
        "SCRAM-SHA-512",
        "How the client logs in. (Kafka's default is GSSAPI.)",
        ("sasl.mechanisms",),
    )
    sasl_username = _option("sasl.username", Text(), "", "The user for PLAIN and SCRAM.")
    sasl_password = _option(
        "sasl.password", Password(), "", "The password of the user; better in sasl.password.file."
    )
    sasl_password_file = _option(
        "sasl.password.file",
        Text(),
        "",
        "A file with the password of the user. The end of a line at its end is ignored.",
    )
    sasl_jaas_config = _option(
        "sasl.jaas.config",
        Password(),
        "",
        "User and password as Kafka's Java clients have them: `...LoginModule required "
        'username="..." password="...";`. Nothing that it names is loaded.',
    )
    sasl_oauthbearer_token_file = _option(
        "sasl.oauthbearer.token.file",
        Text(),
        "",
        "A file with the token for OAUTHBEARER. It is read at each login, so that another program "
        "may renew it.",
    )
    ssl_truststore_location = _option(
        "ssl.truststore.location",
        Text(),
        "",
        "The file with the certificates that sign brokers: PEM or PKCS12. Unset: those of the "
        "system.",
        ("ssl.ca.location",),
    )
    ssl_truststore_certificates = _option(
        "ssl.truststore.certificates",
        Password(),
        "",
        "The trusted certificates themselves, as PEM, instead of ssl.truststore.location.",
        ("ssl.ca.pem",),
    )
    ssl_truststore_password = _option(
        "ssl.truststore.password", Password(), "", "The password of a PKCS12 trust store."
    )
    ssl_truststore_type = _option(
        "ssl.truststore.type",
        Enum("PEM", "PKCS12", "JKS", ""),
        "",
        "The format of ssl.truststore.location; unset: what its contents are.",
    )
    ssl_keystore_location = _option(
        "ssl.keystore.location",
        Text(),
        "",
        "The file with the client's private key and certificates, if brokers require one: PEM or "
        "PKCS12.",
    )
    ssl_keystore_password = _option(
        "ssl.keystore.password", Password(), "", "The password of a PKCS12 key store."
    )
    ssl_keystore_type = _option(
        "ssl.keystore.type",
        Enum("PEM", "PKCS12", "JKS", ""),
        "",
        "The format of ssl.keystore.location; unset: what its contents are.",
    )
    ssl_key_password = _option(
        "ssl.key.password", Password(), "", "The password of an encrypted private key."
    )
    ssl_keystore_key = _option(
        "ssl.keystore.key", Password(), "", "The private key itself, as PEM.", ("ssl.key.pem",)
    )
    ssl_keystore_certificate_chain = _option(
        "ssl.keystore.certificate.chain",
        Password(),
        "",
        "The certificates for ssl.keystore.key, as PEM.",
        ("ssl.certificate.pem",),
    )
    ssl_certificate_location = _option(
        "ssl.certificate.location",
        Text(),
        "",
        "The file with the client's certificates, as PEM; the key is in ssl.key.location "
        "(librdkafka's names).",
    )
    ssl_key_location = _option(
        "ssl.key.location", Text(), "", "The file with the key for ssl.certificate.location."
    )
    ssl_endpoint_identification_algorithm = _option(
        "ssl.endpoint.identification.algorithm",
        Enum("https", "HTTPS", "none", ""),
        "https",
        "Whether the host name of a broker must be in its certificate (https), or not (none).",
    )
    enable_ssl_certificate_verification = _option(
        "enable.ssl.certificate.verification",
        Bool(),
        True,
        "Whether the certificate of a broker is checked at all. Without this, anyone can pretend "
        "to be the broker.",
    )
    ssl_enabled_protocols = _option(
        "ssl.enabled.protocols",
        List("TLSv1.2", "TLSv1.3"),
        ("TLSv1.2", "TLSv1.3"),
        "The versions of TLS that are used.",
    )
    ssl_cipher_suites = _option(
        "ssl.cipher.suites", List(), (), "The cipher suites; empty: OpenSSL's defaults."
    )
