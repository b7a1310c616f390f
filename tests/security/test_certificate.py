"""What is read in a certificate, held against the package cryptography."""

import ipaddress
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from barnabas.security.certificate import read_certificate

KEY = generate_private_key(SECP256R1())


def certificate(
    *parts: x509.RelativeDistinguishedName,
    ends: datetime = datetime(2030, 2, 28, 23, 59, 59, tzinfo=UTC),
    names: list[x509.GeneralName] | None = None,
) -> bytes:
    name = x509.Name(list(parts))
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(KEY.public_key())
        .serial_number(1)
        .not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
        .not_valid_after(ends)
    )
    if names is not None:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(KEY, SHA256()).public_bytes(Encoding.DER)


def part(*values: tuple[x509.ObjectIdentifier, str]) -> x509.RelativeDistinguishedName:
    return x509.RelativeDistinguishedName(x509.NameAttribute(*each) for each in values)


def subject(*parts: x509.RelativeDistinguishedName) -> str:
    return read_certificate(certificate(*parts)).subject


def test_the_last_part_is_written_first_and_parts_of_parts_with_a_plus() -> None:
    written = subject(
        part((NameOID.COUNTRY_NAME, "NZ")),
        part((NameOID.ORGANIZATION_NAME, "Sun")),
        part((NameOID.COMMON_NAME, "duke"), (NameOID.USER_ID, "d")),
    )
    assert written.split(",")[1:] == ["O=Sun", "C=NZ"]
    assert sorted(written.split(",")[0].split("+")) == ["CN=duke", "UID=d"]


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("admin,O=x", r"CN=admin\,O\=x"),
        ('a+b"c\\d<e>f;g', r"CN=a\+b\"c\\d\<e\>f\;g"),
        ("#x", r"CN=\#x"),
        (" a  b ", r"CN=\ a  b\ "),
        ("  ", r"CN=\ \ "),
        ("a\0b", r"CN=a\00b"),
        ("größe 日本", "CN=größe 日本"),
    ],
)
def test_no_value_can_forge_another_attribute(value: str, written: str) -> None:
    assert subject(part((NameOID.COMMON_NAME, value))) == written


def test_attributes_without_a_keyword_are_written_by_number() -> None:
    """As Java does, which keeps their encoding."""
    assert subject(part((NameOID.SERIAL_NUMBER, "7"))) == "2.5.4.5=#130137"
    email = x509.NameAttribute(NameOID.EMAIL_ADDRESS, "a@b", _ASN1Type.IA5String)
    assert subject(x509.RelativeDistinguishedName([email])) == "1.2.840.113549.1.9.1=#1603614062"


@pytest.mark.parametrize("year", [2021, 2024, 2049, 2050, 2100])
@pytest.mark.parametrize(("month", "day"), [(1, 1), (2, 28), (3, 1), (12, 31)])
def test_the_end_is_read_in_both_formats(year: int, month: int, day: int) -> None:
    ends = datetime(year, month, day, 12, 34, 56, tzinfo=UTC)
    der = certificate(part((NameOID.COMMON_NAME, "x")), ends=ends)
    assert read_certificate(der).not_after == int(ends.timestamp())


def test_alternative_names_are_compared_whatever_their_order() -> None:
    names: list[x509.GeneralName] = [
        x509.DNSName("a"),
        x509.IPAddress(ipaddress.ip_address("::1")),
    ]
    own = part((NameOID.COMMON_NAME, "x"))
    one, other = certificate(own, names=names), certificate(own, names=names[::-1])
    assert read_certificate(one).names == read_certificate(other).names
    assert len(read_certificate(one).names) == 2
    assert read_certificate(certificate(own)).names == frozenset()


# Once: signatures differ in length.
WHOLE = certificate(part((NameOID.COMMON_NAME, "x")), names=[x509.DNSName("a")])


@given(st.data())
def test_damaged_bytes_are_refused_or_read_and_nothing_else(data: st.DataObject) -> None:
    der = bytearray(WHOLE)
    for _ in range(data.draw(st.integers(1, 4))):
        der[data.draw(st.integers(0, len(der) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(der)))
    for damaged in (bytes(der), bytes(der[:cut])):
        try:
            read_certificate(damaged)
        except ValueError:
            pass


def test_the_times_of_a_day_are_counted_from_1970() -> None:
    start = datetime(1970, 1, 1, tzinfo=UTC)
    for days in range(18_300, 80_000, 997):
        ends = start + timedelta(days=days)
        facts = read_certificate(certificate(part((NameOID.COMMON_NAME, "x")), ends=ends))
        assert facts.not_after == days * 86_400
