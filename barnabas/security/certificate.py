"""What the broker reads in an X.509 certificate: its subject, its names, and when it ends.

In: a certificate in DER, which OpenSSL has checked. Out: `CertificateFacts`, or ValueError.
Always: the subject is written as Java's `X500Principal.getName()` does (RFC 2253), because that is
what `ssl.principal.mapping.rules` and ACLs of Kafka are written for. A value cannot forge another
attribute: every character with a meaning is escaped.
Not here: whether a certificate is trusted (OpenSSL decides), mapping rules (principal_mapping.py).
"""

from typing import NamedTuple

_SEQUENCE, _SET, _OID = 0x30, 0x31, 0x06
_UTC_TIME = 0x17
_VERSION, _EXTENSIONS = 0xA0, 0xA3
_ALTERNATIVE_NAMES = bytes((0x55, 0x1D, 0x11))
_LENGTH_BYTES_MAX = 4
# The attributes that RFC 2253 has a keyword for. Java writes the others by number.
_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
# UTF8String, PrintableString, T61String, IA5String, GeneralString, UniversalString, BMPString
_STRINGS = (0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1C, 0x1E)
_ESCAPED = ',=+<>#;"\\'


class CertificateFacts(NamedTuple):
    """`not_after`: in seconds since 1970. `names`: the subject alternative names, encoded."""

    subject: str
    not_after: int
    names: frozenset[bytes]


class _Value(NamedTuple):
    tag: int
    start: int  # of the contents
    end: int
    whole: int  # where the tag is


def read_certificate(der: bytes) -> CertificateFacts:
    """ValueError if these bytes are not a certificate."""
    try:
        outer = _value(der, 0, len(der))
        body = _value(der, outer.start, outer.end)
        fields = list(_values(der, body))
        if fields and fields[0].tag == _VERSION:
            del fields[0]
        # serial, algorithm, issuer, validity, subject, key, and extensions
        validity, subject = fields[3], fields[4]
        not_after = list(_values(der, validity))[1]
        names: frozenset[bytes] = frozenset()
        for field in fields[6:]:
            if field.tag == _EXTENSIONS:
                names = _alternative_names(der, field)
        return CertificateFacts(_subject(der, subject), _time(der, not_after), names)
    except (IndexError, UnicodeDecodeError) as problem:
        raise ValueError(f"not a certificate: {problem}") from None


def _value(der: bytes, at: int, end: int) -> _Value:
    """The value that starts at this position."""
    tag, length = der[at], der[at + 1]
    start = at + 2
    if length & 0x80:
        size = length & 0x7F
        if not 0 < size <= _LENGTH_BYTES_MAX:
            raise ValueError("not a certificate: a length is not valid")
        length = int.from_bytes(der[start : start + size])
        start += size
    if start + length > end:
        raise ValueError("not a certificate: a value is longer than the one around it")
    return _Value(tag, start, start + length, at)


def _values(der: bytes, outer: _Value) -> list[_Value]:
    found = []
    at = outer.start
    while at < outer.end:
        value = _value(der, at, outer.end)
        found.append(value)
        at = value.end
    return found


def _time(der: bytes, value: _Value) -> int:
    """UTCTime has two digits of the year, GeneralizedTime four."""
    text = der[value.start : value.end].decode("ascii")
    if value.tag == _UTC_TIME:
        text = ("19" if text[:2] >= "50" else "20") + text
    if not text.endswith("Z") or not text[:14].isdigit():
        raise ValueError(f"not a certificate: {text[:30]!r} is not a time")
    year, month, day, hour, minute, second = (
        int(text[a:b]) for a, b in ((0, 4), (4, 6), (6, 8), (8, 10), (10, 12), (12, 14))
    )
    return (_days(year, month, day) * 24 + hour) * 3600 + minute * 60 + second


def _days(year: int, month: int, day: int) -> int:
    """Days since 1970, of the Gregorian calendar; years begin in March here."""
    if month <= 2:
        year, month = year - 1, month + 12
    leap = year // 4 - year // 100 + year // 400
    return 365 * year + leap + (153 * (month - 3) + 2) // 5 + day - 719_469


def _alternative_names(der: bytes, extensions: _Value) -> frozenset[bytes]:
    (inner,) = _values(der, extensions)
    for extension in _values(der, inner):
        parts = _values(der, extension)
        if der[parts[0].start : parts[0].end] == _ALTERNATIVE_NAMES:
            names = _value(der, parts[-1].start, parts[-1].end)
            return frozenset(der[each.whole : each.end] for each in _values(der, names))
    return frozenset()


# The subject


def _subject(der: bytes, name: _Value) -> str:
    """The last part first, as RFC 2253 has it."""
    parts = []
    for part in reversed(_values(der, name)):
        if part.tag != _SET:
            raise ValueError("not a certificate: the subject is not a list of sets")
        parts.append("+".join(_attribute(der, each) for each in _values(der, part)))
    return ",".join(parts)


def _attribute(der: bytes, attribute: _Value) -> str:
    type_, value = _values(der, attribute)
    if type_.tag != _OID:
        raise ValueError("not a certificate: an attribute has no type")
    number = _number(der[type_.start : type_.end])
    keyword = _KEYWORDS.get(number)
    if keyword is None or value.tag not in _STRINGS:
        return f"{keyword or number}=#{der[value.whole : value.end].hex()}"
    text = der[value.start : value.end].decode("utf-8", "replace")
    return f"{keyword}={_escaped(text)}"


def _escaped(text: str) -> str:
    out = [f"\\{c}" if c in _ESCAPED else "\\00" if c == "\0" else c for c in text]
    blank = (" ", "\r")
    lead = 0
    while lead < len(out) and out[lead] in blank:
        out[lead] = f"\\{out[lead]}"
        lead += 1
    trail = len(out) - 1
    while trail > lead and out[trail] in blank:
        out[trail] = f"\\{out[trail]}"
        trail -= 1
    return "".join(out)


def _number(encoded: bytes) -> str:
    numbers = []
    current = 0
    for byte in encoded:
        current = current << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(current)
            current = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
