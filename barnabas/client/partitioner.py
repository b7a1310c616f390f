"""Which partition a record goes to: Java's choice, so that all clients agree on keys."""

_MASK = 0xFFFF_FFFF
_MULTIPLIER = 0x5BD1_E995
_SEED = 0x9747_B28C


def murmur2(data: bytes) -> int:
    """The 32-bit hash of Java's default partitioner."""
    length = len(data)
    hashed = _SEED ^ length
    whole = length & ~3
    for position in range(0, whole, 4):
        word = int.from_bytes(data[position : position + 4], "little")
        word = word * _MULTIPLIER & _MASK
        word ^= word >> 24
        word = word * _MULTIPLIER & _MASK
        hashed = (hashed * _MULTIPLIER & _MASK) ^ word
    if length > whole:
        hashed ^= int.from_bytes(data[whole:], "little")
        hashed = hashed * _MULTIPLIER & _MASK
    hashed ^= hashed >> 13
    hashed = hashed * _MULTIPLIER & _MASK
    return hashed ^ (hashed >> 15)


def partition_of(key: bytes, count: int) -> int:
    """Of a record with a key, among `count` partitions."""
    return (murmur2(key) & 0x7FFF_FFFF) % count
