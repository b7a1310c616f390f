"""Principals: their text, and the value of super.users."""

import pytest

from barnabas.security.principal import Principal, parse_principal, parse_principals


def test_the_text_of_a_principal_is_read_back() -> None:
    for text in ("User:alice", "User:CN=a,O=b:c", "Group:x y"):
        assert str(parse_principal(text)) == text


@pytest.mark.parametrize("text", ["alice", ":alice", "User:", ""])
def test_text_that_is_no_principal_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="as in User:alice"):
        parse_principal(text)


def test_super_users_are_separated_by_semicolons_not_by_commas() -> None:
    found = parse_principals(" User:admin ; User:CN=a,O=b;;")
    assert found == {Principal("User", "admin"), Principal("User", "CN=a,O=b")}
    assert parse_principals("") == frozenset()
    assert parse_principals("User:a,User:b") == {Principal("User", "a,User:b")}
