"""Java and we read the same subject in a certificate, and Kafka's mapper and ours the same user."""

from datetime import UTC, datetime
from random import Random

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID

from barnabas.security.certificate import read_certificate
from barnabas.security.principal_mapping import PrincipalMapping
from tests.support.java import Java

COUNT = 200
KEY = generate_private_key(SECP256R1())
TYPES = (
    NameOID.COMMON_NAME,
    NameOID.ORGANIZATION_NAME,
    NameOID.ORGANIZATIONAL_UNIT_NAME,
    NameOID.LOCALITY_NAME,
    NameOID.STATE_OR_PROVINCE_NAME,
    NameOID.STREET_ADDRESS,
    NameOID.USER_ID,
    NameOID.DOMAIN_COMPONENT,
    NameOID.TITLE,
    NameOID.SERIAL_NUMBER,
    NameOID.SURNAME,
    NameOID.EMAIL_ADDRESS,
)
ALPHABET = [*'abcXYZ019 ,=+<>#;"\\/.-_@', " ", " ", "ü", "日", "\r", "\n", "'", "*"]
RULES = [
    "DEFAULT",
    "RULE:^CN=(.*?),OU=(.*?)$/$1@$2/L,RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U,DEFAULT",
    "RULE:CN=(.*?)/$1/,RULE:(.*)[+](.*)/$2-$1-$3/",
    r"RULE:^(.{0,9})(.*)$/\$x$1$22/L",
]


def certificate(rng: Random) -> bytes:
    parts = []
    for _ in range(rng.randrange(1, 4)):
        values = {}
        for _ in range(rng.choice([1, 1, 1, 2])):
            type_ = rng.choice(TYPES)
            text = "".join(rng.choice(ALPHABET) for _ in range(rng.randrange(1, 12)))
            encoding = _ASN1Type.UTF8String
            if type_ in (NameOID.DOMAIN_COMPONENT, NameOID.EMAIL_ADDRESS):
                text, encoding = text.encode("ascii", "replace").decode(), _ASN1Type.IA5String
            values[type_] = x509.NameAttribute(type_, text, encoding)
        parts.append(x509.RelativeDistinguishedName(values.values()))
    name = x509.Name(parts)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ca")]))
        .public_key(KEY.public_key())
        .serial_number(1)
        .not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2040, 1, 1, tzinfo=UTC))
        .sign(KEY, SHA256())
        .public_bytes(Encoding.DER)
    )


@pytest.mark.parametrize("number", range(len(RULES)))
def test_java_reads_the_same(java_client: Java, number: int) -> None:
    rng = Random(number)
    certificates = [certificate(rng) for _ in range(COUNT)]
    lines = "\n".join(each.hex() for each in certificates)
    done = java_client.run("Subjects", RULES[number], stdin=lines)
    assert done.returncode == 0, done.stderr
    theirs = [tuple(map(_text, line.split(" "))) for line in done.stdout.splitlines()]
    mapping = PrincipalMapping(RULES[number])
    ours = []
    for each in certificates:
        subject = read_certificate(each).subject
        ours.append((subject, mapping.name_of(subject)))
    assert ours == theirs


def _text(printed: str) -> str | None:
    return None if printed == "-" else bytes.fromhex(printed[1:]).decode()
