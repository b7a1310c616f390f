"""Broker options about logins (SASL): mechanisms, limits, and tokens of an identity provider.

Names are Kafka's; where a default differs, the doc says so. A listener may have values of its own:
`listener.name.NAME.OPTION`, and for one mechanism `listener.name.NAME.MECHANISM.OPTION`.
Always: none of these options can be changed by a request.
"""

from barnabas.config.kinds import Bytes, Enum, Int, List, Milliseconds, Password, Text
from barnabas.config.option import Option, Scope
from barnabas.config.resolve import Config

SCRAM_SHA_512 = "SCRAM-SHA-512"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", SCRAM_SHA_512, "OAUTHBEARER")


class SaslOptions(Config):
    """How clients and other brokers log in."""

    sasl_enabled_mechanisms = Option[tuple[str, ...]](
        name="sasl.enabled.mechanisms",
        kind=List(*MECHANISMS),
        default=("SCRAM-SHA-256", SCRAM_SHA_512),
        scope=Scope.BROKER,
        needs_restart=True,
        doc="The mechanisms that clients of SASL listeners may use. (Kafka's default is GSSAPI, "
        "which Barnabas does not have.)",
    )
    sasl_mechanism_inter_broker_protocol = Option[str](
        name="sasl.mechanism.inter.broker.protocol",
        kind=Enum(*MECHANISMS),
        default=SCRAM_SHA_512,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="The mechanism with which brokers log in to each other. (Kafka's default is GSSAPI.)",
    )
    sasl_jaas_config = Option[str | None](
        name="sasl.jaas.config",
        kind=Password(),
        default=None,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="Users of PLAIN, and with what brokers log in to each other. Read only with the prefix "
        "of a listener and a mechanism, as in Kafka. Nothing that it names is loaded.",
    )
    sasl_server_max_receive_size = Option[int](
        name="sasl.server.max.receive.size",
        kind=Bytes(min=1),
        default=524_288,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="The largest request of a client that has not logged in.",
    )
    connection_failed_authentication_delay_ms = Option[int](
        name="connection.failed.authentication.delay.ms",
        kind=Int(min=0),
        default=100,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="How long the answer to a failed login, and the end of its connection, is delayed.",
    )
    connections_max_reauth_ms = Option[int](
        name="connections.max.reauth.ms",
        kind=Milliseconds(min=0),
        default=0,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="After this time a client must log in again on its connection, else the connection is "
        "closed; 0: never. A token of OAUTHBEARER may end earlier.",
    )
    delegation_token_secret_key = Option[str | None](
        name="delegation.token.secret.key",
        kind=Password(),
        default=None,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="The secret of delegation tokens, the same on all brokers; unset: no tokens.",
    )
    delegation_token_max_lifetime_ms = Option[int](
        name="delegation.token.max.lifetime.ms",
        kind=Milliseconds(min=1),
        default=604_800_000,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="How long a delegation token can be renewed.",
    )
    delegation_token_expiry_time_ms = Option[int](
        name="delegation.token.expiry.time.ms",
        kind=Milliseconds(min=1),
        default=86_400_000,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="How long a delegation token is valid unless it is renewed.",
    )
    sasl_oauthbearer_jwks_endpoint_url = Option[str | None](
        name="sasl.oauthbearer.jwks.endpoint.url",
        kind=Text(),
        default=None,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="The keys of the identity provider (JWKS): a file (file:///...) or an https address. "
        "OAUTHBEARER requires it.",
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms = Option[int](
        name="sasl.oauthbearer.jwks.endpoint.refresh.ms",
        kind=Milliseconds(min=1_000),
        default=3_600_000,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="How often the keys of the identity provider are read again.",
    )
    sasl_oauthbearer_expected_issuer = Option[str | None](
        name="sasl.oauthbearer.expected.issuer",
        kind=Text(),
        default=None,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="The issuer that a token must have. OAUTHBEARER requires it.",
    )
    sasl_oauthbearer_expected_audience = Option[tuple[str, ...]](
        name="sasl.oauthbearer.expected.audience",
        kind=List(),
        default=(),
        scope=Scope.BROKER,
        needs_restart=True,
        doc="The audiences of which a token must have one. OAUTHBEARER requires it.",
    )
    sasl_oauthbearer_clock_skew_seconds = Option[int](
        name="sasl.oauthbearer.clock.skew.seconds",
        kind=Int(min=0, max=300),
        default=30,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="How far the clock of the identity provider may differ.",
    )
    sasl_oauthbearer_sub_claim_name = Option[str](
        name="sasl.oauthbearer.sub.claim.name",
        kind=Text(),
        default="sub",
        scope=Scope.BROKER,
        needs_restart=True,
        doc="The claim of a token that names the user.",
    )
    sasl_oauthbearer_scope_claim_name = Option[str](
        name="sasl.oauthbearer.scope.claim.name",
        kind=Text(),
        default="scope",
        scope=Scope.BROKER,
        needs_restart=True,
        doc="The claim of a token with its scope. The scope is checked for its form only.",
    )
