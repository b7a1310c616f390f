"""With SECURED=1 the suites of real clients run with TLS and logins.

Brokers of `running_broker` then have one listener, SASL_SSL with SCRAM-SHA-512, and access rules;
every client is told certificate and password without a change of its test. In Python that is done
where a library is imported (secured_clients/), elsewhere by files of options.
Always: only the clients of such brokers change. A broker is known by its port, which is the name
of a file in `$SECURED_HOME/ports`.
"""

import atexit
import os
import shutil
import socket
import ssl
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from struct import pack, unpack, unpack_from

from tests.secured_clients import sitecustomize as clients

SECURED = os.environ.get("SECURED") == "1"
PATH = str(Path(__file__).parent / "secured_clients")
_HOME = "SECURED_HOME"
_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
_PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_BROKER, _BROKER_PASSWORD = "broker", "canary-between-brokers"


def begin() -> None:
    """Once, in the process that starts all others: certificates, files of options, environment."""
    if not SECURED:
        return
    if _HOME not in os.environ:
        _make_home()
    clients.install()


def _make_home() -> None:
    from tests.support.certificates import new_pki

    home = Path(tempfile.mkdtemp(prefix="barnabas-secured-"))
    atexit.register(_remove, home, os.getpid())
    (home / "ports").mkdir()
    new_pki(home)
    java = {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(home / "ca.pem"),
        "sasl.mechanism": clients.MECHANISM,
        "sasl.jaas.config": f'{_MODULE} required username="{clients.USER}"'
        f' password="{clients.PASSWORD}";',
    }
    os.environ[_HOME] = str(home)
    _write(home / "client.properties", java)
    # Its librdkafka is older than 2.6.1, and cannot log in with SCRAM to any broker that is strict.
    _write(home / "kcat.conf", {**clients.dotted(), "sasl.mechanism": "PLAIN"})
    # The folder of the command's own module is first in its path: this comes after it.
    inherited = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = f"{PATH}:{inherited}" if inherited else PATH
    os.environ["KCAT_CONFIG"] = str(home / "kcat.conf")
    os.environ["SECURED_USER"], os.environ["SECURED_PASSWORD"] = clients.USER, clients.PASSWORD


def _remove(home: Path, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(home, ignore_errors=True)


def _write(file: Path, options: Mapping[str, str]) -> None:
    file.write_text("".join(f"{name}={value}\n" for name, value in options.items()))


def broker_arguments(
    data: Path, file: Path, host: str, ports: Sequence[int], options: Mapping[str, str]
) -> list[str]:
    """Of `barnabas up`, with its users made and its ports known as secured."""
    from barnabas.cli.security import stored_users
    from barnabas.security.sasl.mechanism import SCRAMS

    if not file.exists():  # not at a restart
        users = {clients.USER: clients.PASSWORD, _BROKER: _BROKER_PASSWORD}
        with stored_users.opened(str(data), None) as keeper:
            for user, password in users.items():
                stored_users.set_password(keeper, user, password, SCRAMS, 4096)
    jaas = f'{_MODULE} required username="{_BROKER}" password="{_BROKER_PASSWORD}";'
    _write(
        file,
        {
            "sasl.enabled.mechanisms": f"{clients.MECHANISM},PLAIN",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": f"{_PLAIN_MODULE} required"
            f' user_{clients.USER}="{clients.PASSWORD}";',
            "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": jaas,
            "ssl.keystore.location": str(clients.home() / "server.pem"),
            "ssl.truststore.location": str(clients.home() / "ca.pem"),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{_BROKER};User:{clients.USER}",
            **options,
        },
    )
    for port in ports:
        (clients.home() / "ports" / str(port)).touch()
    return ["--data", str(data), "--listen", f"SASL_SSL://{host}:{ports[0]}", "-F", str(file)]


def connection(host: str, port: int, timeout_s: float) -> socket.socket:
    """To a broker of either kind, for requests that are made by hand."""
    plain = socket.create_connection((host, port), timeout=timeout_s)
    if plain.getsockname() == plain.getpeername():
        # Where nobody listens, the kernel may pick the very port that is called.
        plain.close()
        raise ConnectionRefusedError("a connection with itself")
    if not is_secured(f"{host}:{port}"):
        return plain
    context = ssl.create_default_context(cafile=str(clients.home() / "ca.pem"))
    try:
        encrypted = context.wrap_socket(plain, server_hostname=host)
        token = f"\0{clients.USER}\0{clients.PASSWORD}".encode()
        # SaslHandshake version 1, and SaslAuthenticate version 0.
        for header, text in ((_HANDSHAKE, b"\0\5PLAIN"), (_ANSWER, pack(">i", len(token)) + token)):
            encrypted.sendall(pack(">i", len(header + text)) + header + text)
            (size,) = unpack(">i", _exactly(encrypted, 4))
            (error,) = unpack_from(">h", _exactly(encrypted, size), 4)
            if error:
                raise ConnectionError(f"the login failed with {error}")
    except BaseException:
        plain.close()
        raise
    return encrypted


_HANDSHAKE, _ANSWER = (pack(">hhih", key, version, 1, -1) for key, version in ((17, 1), (36, 0)))


def _exactly(connected: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count:
        piece = connected.recv(count - len(received))
        if not piece:
            raise ConnectionResetError("closed during the login")
        received += piece
    return received


def java_arguments(main: str, arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Flags of the JVM and arguments, for a program with the address of a broker among these."""
    at = next((n for n, each in enumerate(arguments) if is_secured(each)), None)
    if at is None or "--command-config" in arguments:
        return [], list(arguments)
    file = str(clients.home() / "client.properties")
    if "." not in main:  # one of tests/support/java
        return [f"-Dclient.properties={file}"], list(arguments)
    return [], [*arguments[: at + 1], "--command-config", file, *arguments[at + 1 :]]


def node_environment() -> dict[str, str]:
    if not SECURED:
        return {}
    names = (_HOME, "SECURED_USER", "SECURED_PASSWORD")
    return {name: os.environ[name] for name in names}


def is_secured(servers: str) -> bool:
    return SECURED and clients.is_secured(servers)
