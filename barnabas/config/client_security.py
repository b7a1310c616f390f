"""Client options about security: the protocol, and with what a client logs in.

Names are Kafka's, or librdkafka's where Kafka has only `sasl.jaas.config`.
Always: a secret may come from a file, so that it is in no program and on no command line.
"""

from typing import TypeVar

from barnabas.config.kinds import Enum, Kind, Password, Text
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
