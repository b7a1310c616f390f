"""Declarations: names, defaults, kinds, and the page generated from them."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.config import broker, topic
from barnabas.config.__main__ import markdown
from barnabas.config.broker import BrokerConfig
from barnabas.config.kinds import Bytes, ConfigType, Float, List, ListenerAddress, Milliseconds
from barnabas.config.kinds import parse_address as address
from barnabas.config.no_effect import NO_EFFECT
from barnabas.config.option import Option, Scope
from barnabas.config.resolve import Layers
from barnabas.config.topic import TopicConfig
from barnabas.model.errors import Code, InvalidRequest
from tests.config.reads import no_effect, options_read

OPTIONS = [*topic.ALL.values(), *broker.OPTIONS.values()]


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_every_default_survives_text(option: Option[Any]) -> None:
    text = option.format(option.default)
    assert text is None or option.parse(text) == option.default


@pytest.mark.parametrize("option", topic.OPTIONS.values(), ids=lambda option: option.name)
def test_a_topic_option_defaults_to_what_its_broker_options_say(option: Option[Any]) -> None:
    # Of one topic: the replicas as in Kafka, its lake as it is.
    own = option.name.endswith("throttled.replicas") or option.name in topic.OWN
    assert option.synonyms or own, "DescribeConfigs shows where a topic's default comes from"
    texts = {n: broker.OPTIONS[n].format(broker.OPTIONS[n].default) for n in option.synonyms}
    set_ones = {name: text for name, text in texts.items() if text is not None}
    assert getattr(TopicConfig({}, Layers(set_ones)), option.attribute) == option.default


@pytest.mark.parametrize("config", [TopicConfig, BrokerConfig])
def test_an_option_is_the_attribute_of_its_name(
    config: type[TopicConfig] | type[BrokerConfig],
) -> None:
    options = topic.OPTIONS if config is TopicConfig else broker.OPTIONS
    for option in options.values():
        assert getattr(config, option.attribute) is option
        assert vars(config())[option.attribute] == option.default


def test_the_page_of_options_is_up_to_date() -> None:
    page = Path(__file__).parents[2] / "docs" / "config.md"
    assert page.read_text() == markdown(), "run: python -m barnabas.config > docs/config.md"


@pytest.mark.full  # it parses the whole package
def test_the_options_without_effect_are_those_that_no_code_reads() -> None:
    """Otherwise the page of options, DescribeConfigs and the warnings at the start are wrong."""
    found = {scope: sorted(names) for scope, names in NO_EFFECT.items()}
    command = "python -m tests.config.reads > barnabas/config/no_effect.py"
    assert found == no_effect(), f"run: {command}"
    read = options_read()
    assert "unclean.leader.election.enable" in read[Scope.TOPIC] & read[Scope.BROKER]
    assert TopicConfig.unclean_leader_election_enable.has_effect
    assert not BrokerConfig.queued_max_requests.has_effect


@given(st.integers(-(2**70), 2**70))
def test_a_number_outside_its_bounds_is_refused(number: int) -> None:
    option = TopicConfig.max_message_bytes
    if 0 <= number < 2**31:
        assert option.parse(f" {number} ") == number
    else:
        with pytest.raises(InvalidRequest, match=r"max.message.bytes.*0 or more"):
            option.parse(str(number))


@pytest.mark.parametrize("text", ["", "1.5", "0x10", "१", "1_000", "--1", "9" * 5000, "NaN"])
def test_what_is_not_a_whole_number_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        TopicConfig.retention_ms.parse(text)
    assert refused.value.code is Code.INVALID_CONFIG
    assert len(str(refused.value)) < 400


def test_a_ratio_is_not_nan() -> None:
    with pytest.raises(ValueError, match="from 0 to 1"):
        Float(0, 1).parse("nan")


def test_kinds_name_the_type_that_describe_configs_carries() -> None:
    assert Milliseconds().type is ConfigType.LONG
    assert Bytes().type is ConfigType.INT
    assert List().type is ConfigType.LIST


def test_a_list_takes_each_known_word_once() -> None:
    option = TopicConfig.cleanup_policy
    assert option.parse("compact, delete") == ("compact", "delete")
    assert option.parse("") == ()
    for text in ["compact,compact", "shred", "delete,", "Delete"]:
        with pytest.raises(InvalidRequest, match=r"cleanup\.policy"):
            option.parse(text)


def test_listeners_are_names_with_addresses() -> None:
    parse = BrokerConfig.listeners.parse
    assert parse("PLAINTEXT://:9092") == (ListenerAddress("PLAINTEXT", "", 9092),)
    assert parse("plaintext://[::1]:0") == (ListenerAddress("PLAINTEXT", "::1", 0),)
    for text in ["", "localhost:9092", "A://x", "A://x:1,A://y:2", "A://x:65536", "A://::1:9092"]:
        with pytest.raises(InvalidRequest, match="listeners"):
            parse(text)


def test_an_address_needs_a_port() -> None:
    assert address("localhost:9092") == ("localhost", 9092)
    assert str(address("[::1]:9092")) == "[::1]:9092"
    for text in ["localhost", "localhost:", "localhost:x", "a b:1", "h:-1"]:
        with pytest.raises(ValueError, match="expected"):
            address(text)
