"""Brokers with SASL listeners for tests, and clients that log in by hand."""

from barnabas.keeper.keeper import ensure
from barnabas.keeper.memory import MemoryKeeper
from barnabas.keeper.paths import USER_CONFIGS, USERS, config_data, entity_config
from barnabas.security.sasl.client_login import ClientLogin, SaslLogin
from barnabas.security.sasl.credentials import HASHES, credential, credential_text
from barnabas.security.sasl.mechanism import SCRAM_SHA_256, SCRAMS
from barnabas.wire.codec import ProtocolMessage
from tests.broker.running import Running, Wire

PASSWORD = "canary-7f3a"
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:9092",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain."
    f'PlainLoginModule required user_alice="{PASSWORD}" user_bob="brush";',
    "connection.failed.authentication.delay.ms": "0",
}


def user_settings(password: str, iterations: int = 4096) -> dict[str, str]:
    return {
        mechanism: credential_text(
            credential(HASHES[mechanism], password, b"salt of the user", iterations)
        )
        for mechanism in SCRAMS
    }


def keeper_with(users: dict[str, str]) -> MemoryKeeper:
    keeper = MemoryKeeper()
    ensure(keeper, USER_CONFIGS)
    for user, password in users.items():
        keeper.create(entity_config(USERS, user), config_data(user_settings(password)))
    return keeper


async def log_in(
    run: Running,
    wire: Wire,
    mechanism: str = SCRAM_SHA_256,
    user: str = "alice",
    password: str = PASSWORD,
) -> ClientLogin:
    """As a client does; AuthenticationFailed, or ConnectionError, if the broker refuses."""
    login = ClientLogin(SaslLogin(mechanism, user, password), "clientnonce")
    request: ProtocolMessage | None = login.first()
    while request is not None:
        response = await run.ask(request, ProtocolMessage, wire=wire)
        request = login.next(response)
    return login
