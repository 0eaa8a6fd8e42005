"""Which hosts are this machine: what a server that listens here alone answers to."""

from __future__ import annotations

import ipaddress

# A tunnel (`ssh -L 9000:127.0.0.1:8642`) changes the port, so every port is allowed.
_HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})


def is_local(host: str) -> bool:
    """Returns whether a Host header names this machine, with any port or none."""
    name, colon, port = host.rpartition(":")
    # "[::1]" without a port has colons too; what is behind the last one is then no number.
    if not colon or not port.isascii() or not port.isdigit():
        name = host
    return name.lower() in _HOSTS


def is_loopback(address: str) -> bool:
    """Returns whether only this machine reaches what listens on an address."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address.lower() == "localhost"
