from hypothesis import given
from hypothesis import strategies as st

from barnabas.assignment.user_data import (
    Claim,
    decode_cooperative,
    decode_sticky,
    encode_cooperative,
    encode_sticky,
)
from barnabas.model.ids import TopicPartition

numbers = st.integers(-(2**31), 2**31 - 1)
claims = st.builds(
    Claim,
    st.dictionaries(st.text(max_size=9), st.lists(numbers, min_size=1, max_size=5)).map(
        lambda owned: tuple(TopicPartition(t, p) for t, these in owned.items() for p in these)
    ),
    numbers,
)


@given(claims)
def test_a_claim_is_read_as_it_was_written(claim: Claim) -> None:
    assert decode_sticky(encode_sticky(claim)) == claim


@given(claims)
def test_version_0_has_no_generation(claim: Claim) -> None:
    assert decode_sticky(encode_sticky(claim)[:-4]) == Claim(claim.partitions, -1)


@given(st.binary())
def test_any_bytes_can_be_read(data: bytes) -> None:
    decode_sticky(data)
    decode_cooperative(data)


@given(claims.filter(lambda claim: bool(claim.partitions)), st.data())
def test_what_is_cut_short_claims_nothing(claim: Claim, data: st.DataObject) -> None:
    whole = encode_sticky(claim)[:-4]
    assert decode_sticky(whole[: data.draw(st.integers(0, len(whole) - 1))]) == Claim()


def test_counts_are_checked_before_they_are_believed() -> None:
    for count in (2**31 - 1, -1):
        assert decode_sticky(count.to_bytes(4, "big", signed=True) + bytes(8)) == Claim()


@given(numbers)
def test_a_generation_is_read_as_it_was_written(generation: int) -> None:
    assert decode_cooperative(encode_cooperative(generation)) == generation
    assert decode_cooperative(encode_cooperative(generation)[:3]) == -1
    assert decode_cooperative(None) == -1
