"""Who a client with a certificate is. The rules are those of Kafka's documentation and tests."""

import pytest

from barnabas.security.principal_mapping import PrincipalMapping

DOCUMENTED = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,"
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,"
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L,"
    "DEFAULT"
)


@pytest.mark.parametrize(
    ("distinguished_name", "user"),
    [
        ("CN=serviceuser,OU=ServiceUsers,O=Unknown,L=Unknown,ST=Unknown,C=Unknown", "serviceuser"),
        ("CN=adminUser,OU=Admin,O=Unknown,L=Unknown,ST=Unknown,C=Unknown", "adminuser@admin"),
        ("OU=Test,cn=Duke.X,O=Sun", "duke.x"),
        ("OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
    ],
)
def test_the_first_rule_that_matches_decides(distinguished_name: str, user: str) -> None:
    assert PrincipalMapping(DOCUMENTED).name_of(distinguished_name) == user


def test_without_a_rule_that_matches_there_is_no_user() -> None:
    assert PrincipalMapping("RULE:^CN=(.*)$/$1/").name_of("O=x") is None
    assert PrincipalMapping("").name_of("CN=x") is None


def test_case_and_escapes() -> None:
    name_of = PrincipalMapping(r"RULE:^CN=(.*)\/x$/\$$1\/y/U , DEFAULT").name_of
    assert name_of("CN=a/x") == "$A/Y"
    assert name_of("CN=a") == "CN=a"


@pytest.mark.parametrize(
    "rules",
    [
        "RULE:CN=x",
        "RULE:CN=x/y",
        "RULE:CN=x/y/X",
        "RULE:(/y/",
        "DEFAULT x",
        "default",
        "RULE:a/b/LU",
    ],
)
def test_a_rule_that_is_not_valid_is_refused(rules: str) -> None:
    with pytest.raises(ValueError, match=r"expected DEFAULT or RULE|the pattern of"):
        PrincipalMapping(rules)
