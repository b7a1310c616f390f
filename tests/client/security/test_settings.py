"""With what a client logs in: options, files, and errors that repeat no secret."""

import traceback
from pathlib import Path

import pytest

from barnabas.client.security.settings import login_of
from barnabas.config.client import ClientConfig
from barnabas.model.errors import KafkaError
from barnabas.security.sasl.client_login import SaslLogin

BASE = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256"}
JAAS = "org.apache.kafka.common.security.scram.ScramLoginModule required"


def login(**options: str) -> SaslLogin | None:
    given = {name.replace("_", "."): value for name, value in options.items()}
    return login_of(ClientConfig({**BASE, **given}))


def test_user_and_password_are_taken_from_options() -> None:
    assert login(sasl_username="a", sasl_password="b") == SaslLogin("SCRAM-SHA-256", "a", "b")
    assert login_of(ClientConfig()) is None


def test_librdkafkas_name_of_the_mechanism_works_too() -> None:
    config = ClientConfig(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanisms": "PLAIN",
            "sasl.username": "a",
            "sasl.password": "b",
        }
    )
    assert login_of(config) == SaslLogin("PLAIN", "a", "b")


def test_the_password_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(" b c \n")
    assert login(sasl_username="a", sasl_password_file=str(file)) == SaslLogin(
        "SCRAM-SHA-256", "a", " b c "
    )


def test_user_and_password_are_taken_from_jaas() -> None:
    found = login(sasl_jaas_config=f'{JAAS} username="a" password="b;\\"" tokenauth="true";')
    assert found == SaslLogin("SCRAM-SHA-256", "a", 'b;"', by_token=True)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"sasl_username": "a"}, "requires sasl.password"),
        ({"sasl_password": "canary"}, "requires sasl.username"),
        ({"sasl_jaas_config": "canary"}, "expected: MODULE"),
        ({"sasl_jaas_config": 'PlainLoginModule required password="canary";'}, "requires Scram"),
        ({"sasl_jaas_config": f'{JAAS} username="a";', "sasl_username": "a"}, "exclude each"),
        ({"sasl_username": "a", "sasl_password_file": "/nowhere"}, "cannot be read"),
        ({"security_protocol": "PLAINTEXT", "sasl_username": "a"}, "has no login"),
        ({"sasl_mechanism": "OAUTHBEARER"}, "requires sasl.oauthbearer.token.file"),
        ({"sasl_mechanism": "GSSAPI"}, "expected one of"),
        ({"sasl_username": "a", "sasl_password": "canary" * 10_000}, "at most"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(KafkaError, match=said) as problem:
        login(**options)
    assert "canary" not in "".join(traceback.format_exception(problem.value))


def test_a_secret_of_another_type_is_not_repeated() -> None:
    with pytest.raises(KafkaError, match="hidden") as problem:
        ClientConfig({"sasl.password": b"canary"})
    assert "canary" not in str(problem.value)


def test_a_login_does_not_print_its_password() -> None:
    assert "canary" not in repr(SaslLogin("PLAIN", "alice", "canary"))
