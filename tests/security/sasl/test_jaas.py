"""sasl.jaas.config as people write it."""

import pytest

from barnabas.security.sasl.jaas import parse_jaas

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_the_options_of_a_client_are_read() -> None:
    found = parse_jaas(f'{MODULE} required username="alice" password="a b\\"c;=\\\\";')
    assert found.module == "PlainLoginModule"
    assert found.options == {"username": "alice", "password": 'a b"c;=\\'}


def test_the_users_of_a_broker_are_read() -> None:
    found = parse_jaas(
        f'{MODULE} required\n username="admin"\n password="x"\n user_admin="x" user_bob=y ;\n'
    )
    assert found.users == {"admin": "x", "bob": "y"}


def test_options_are_not_printed() -> None:
    assert "canary" not in repr(parse_jaas(f'{MODULE} required password="canary";'))


@pytest.mark.parametrize(
    "text",
    [
        "", ";", "Module", "Module;", "Module required", "Module maybe;",
        'Module required a="canary"',
        'Module required a "canary";', 'Module required "canary;', "Module required =canary;",
        'Module required a="canary"; Module required;',
    ],
)  # fmt: skip
def test_other_text_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(ValueError, match="expected: MODULE") as problem:
        parse_jaas(text)
    assert "canary" not in str(problem.value)
