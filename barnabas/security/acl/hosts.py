"""One spelling for each address: rules compare the text of a client's address.

Java writes `0:0:0:0:0:0:0:1`, Python `::1`; a client that reaches a socket for both families by
IPv4 is `::ffff:10.0.0.1` to the socket and `10.0.0.1` to the rules.
"""

from ipaddress import IPv6Address


def host_text(host: str) -> str:
    """The spelling that rules and connections are compared in; other text is returned as it is."""
    if ":" not in host:
        return host
    try:
        address = IPv6Address(host.strip("[]"))
    except ValueError:
        return host
    return str(address.ipv4_mapped or address)
