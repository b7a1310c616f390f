"""Listeners: names, protocols, advertised addresses, the one between brokers, options of one."""

import pytest

from barnabas.config.alter import Change, Operation, alter_broker, broker_option, check_static
from barnabas.config.broker import BrokerConfig
from barnabas.config.broker_listeners import SecurityProtocol, check_exposure
from barnabas.config.kinds import Address
from barnabas.config.listener_options import settings_of, split_name
from barnabas.config.resolve import Layers
from barnabas.model.errors import Code, InvalidRequest


def test_a_protocol_is_a_listener_name_without_a_map() -> None:
    config = BrokerConfig({"listeners": "PLAINTEXT://:1,ssl://h:2,SASL_SSL://h:3"})
    assert [(each.name, each.protocol) for each in config.listener_settings] == [
        ("PLAINTEXT", SecurityProtocol.PLAINTEXT),
        ("SSL", SecurityProtocol.SSL),
        ("SASL_SSL", SecurityProtocol.SASL_SSL),
    ]


@pytest.mark.parametrize("name", ["CONTROLLER", "inside"])
def test_another_name_needs_a_protocol(name: str) -> None:
    listeners = {"listeners": f"PLAINTEXT://h:1,{name}://h:2"}
    with pytest.raises(InvalidRequest, match=rf"{name.upper()}:SSL.*protocol\.map") as refused:
        BrokerConfig(listeners)
    assert refused.value.code == Code.INVALID_CONFIG
    protocols = {"listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{name}:ssl"}
    config = BrokerConfig({**listeners, **protocols})
    assert config.listener_settings[1].protocol is SecurityProtocol.SSL


@pytest.mark.parametrize("text", ["A:B", "A", "A:SSL,A:SSL", ":SSL"])
def test_a_map_has_names_and_protocols(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"listener\.security\.protocol\.map"):
        BrokerConfig({"listener.security.protocol.map": text})


def test_a_listener_that_is_not_advertised_is_known_to_no_client() -> None:
    config = BrokerConfig(
        {
            "listeners": "PLAINTEXT://h:1,SSL://h:2",
            "advertised.listeners": "SSL://outside:9",
            "inter.broker.listener.name": "ssl",
        }
    )
    plain, encrypted = config.listener_settings
    assert (plain.advertised, plain.is_advertised, plain.between_brokers) == (None, False, False)
    assert (encrypted.advertised, encrypted.is_advertised) == (Address("outside", 9), True)
    assert encrypted.between_brokers
    with pytest.raises(InvalidRequest, match="SSL is not the name of a listener"):
        BrokerConfig({"advertised.listeners": "SSL://outside:9"})


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({}, "PLAINTEXT"),
        ({"listeners": "SSL://h:1,PLAINTEXT://h:2"}, "PLAINTEXT"),
        ({"listeners": "SSL://h:1,SASL_SSL://h:2"}, "SSL"),
        (
            {"listeners": "SSL://h:1,SASL_SSL://h:2", "security.inter.broker.protocol": "SASL_SSL"},
            "SASL_SSL",
        ),
        ({"listeners": "SSL://h:1,PLAINTEXT://h:2", "inter.broker.listener.name": "ssl"}, "SSL"),
    ],
)
def test_brokers_use_one_listener_among_themselves(settings: dict[str, str], name: str) -> None:
    assert BrokerConfig(settings).between_brokers == name


def test_the_listener_between_brokers_is_named_once_and_exists() -> None:
    with pytest.raises(InvalidRequest, match="exclude each other"):
        BrokerConfig(
            {
                "inter.broker.listener.name": "PLAINTEXT",
                "security.inter.broker.protocol": "PLAINTEXT",
            }
        )
    with pytest.raises(InvalidRequest, match="SSL is not the name of an advertised listener"):
        BrokerConfig({"security.inter.broker.protocol": "SSL"})


@pytest.mark.parametrize("host", ["", "0.0.0.0", "[::]", "10.0.0.1", "kafka.example"])
def test_plain_text_for_other_machines_must_be_allowed(host: str) -> None:
    settings = {"listeners": f"PLAINTEXT://{host}:9092"}
    with pytest.raises(InvalidRequest, match="--insecure"):
        check_exposure(BrokerConfig(settings))
    check_exposure(BrokerConfig({**settings, "listeners.insecure.allow": "true"}))
    check_exposure(BrokerConfig({"listeners": f"SSL://{host}:9092"}))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "[::1]", "localhost"])
def test_plain_text_within_the_machine_is_as_easy_as_ever(host: str) -> None:
    check_exposure(BrokerConfig({"listeners": f"PLAINTEXT://{host}:9092"}))


def test_an_option_of_one_listener_wins_over_that_of_all() -> None:
    layers = Layers(
        {
            "ssl.client.auth": "none",
            "listener.name.outside.ssl.client.auth": "required",
            "listener.name.outsider.ssl.client.auth": "requested",
            "listener.name.outside.plain.sasl.jaas.config": "x",
        }
    )
    assert settings_of(layers, "OUTSIDE")["ssl.client.auth"] == "required"
    assert settings_of(layers, "OUTSIDE", "PLAIN") == {"sasl.jaas.config": "x"}
    assert split_name("listener.name.a.scram-sha-512.sasl.jaas.config") == (
        "a",
        "scram-sha-512",
        "sasl.jaas.config",
    )


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("listener.name.OUTSIDE.ssl.client.auth", "in lower case"),
        ("listener.name.outside.log.dirs", "no option 'log.dirs' of its own"),
        ("listener.name.outside", "no option '' of its own"),
    ],
)
def test_an_option_that_no_listener_has_is_refused(name: str, reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason):
        broker_option(name)
    with pytest.raises(InvalidRequest, match=reason):
        alter_broker({}, [Change(name, Operation.SET, "x")])


def test_an_option_of_a_listener_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="there is no listener OUTSIDE; listeners has SSL"):
        check_static({"listeners": "SSL://h:1", "listener.name.outside.ssl.client.auth": "none"})
