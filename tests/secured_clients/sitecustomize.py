"""Tells each Python client to log in, where its broker is one that requires it (tests/secured.py).

Python runs this module at the start of every process that has its folder in PYTHONPATH. The
libraries are changed when they are imported, not before: a process pays for those that it uses.
"""

import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from functools import wraps
from importlib.abc import Loader, MetaPathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

USER, PASSWORD = "tester", "canary-of-tester"
MECHANISM = "SCRAM-SHA-512"


def home() -> Path:
    return Path(os.environ["SECURED_HOME"])


def is_secured(servers: object) -> bool:
    """Whether one of these addresses is a broker's that requires a login."""
    named = servers.split(",") if isinstance(servers, str) else servers
    if not isinstance(named, list | tuple):
        return False
    ports = [str(each).rpartition(":")[2].strip() for each in named]
    return any(port.isdigit() and (home() / "ports" / port).exists() for port in ports)


def dotted() -> dict[str, str]:
    """As librdkafka and our own client name them."""
    return {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(home() / "ca.pem"),
        "sasl.mechanism": MECHANISM,
        "sasl.username": USER,
        "sasl.password": PASSWORD,
    }


def _with_login(given: Mapping[str, Any]) -> dict[str, Any]:
    if "security.protocol" in given or not is_secured(given.get("bootstrap.servers")):
        return dict(given)
    return {**dotted(), **given}


def _confluent(module: ModuleType) -> None:
    for name in ("Producer", "Consumer"):
        setattr(module, name, _secured_subclass(getattr(module, name)))


def _secured_subclass(base: Any) -> Any:
    def __init__(self: Any, *given: Any, **keywords: Any) -> None:
        if given and isinstance(given[0], dict):
            given = (_with_login(given[0]), *given[1:])
        base.__init__(self, *given, **keywords)

    return type(base.__name__, (base,), {"__init__": __init__})


def _confluent_admin(module: ModuleType) -> None:
    _wrap(module.AdminClient, lambda given, words: ((_with_login(given[0]), *given[1:]), words))


_Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def _wrap(cls: Any, secured: Callable[[tuple[Any, ...], dict[str, Any]], _Arguments]) -> None:
    plain = cls.__init__

    @wraps(plain)
    def __init__(self: Any, *given: Any, **keywords: Any) -> None:
        given, keywords = secured(given, keywords)
        plain(self, *given, **keywords)

    cls.__init__ = __init__


def _underscored(given: tuple[Any, ...], keywords: dict[str, Any], **more: Any) -> _Arguments:
    if "security_protocol" in keywords or not is_secured(keywords.get("bootstrap_servers")):
        return given, keywords
    login = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": MECHANISM,
        "sasl_plain_username": USER,
        "sasl_plain_password": PASSWORD,
        **more,
    }
    return given, {**login, **keywords}


def _kafka_python(module: ModuleType) -> None:
    for name in ("KafkaProducer", "KafkaConsumer", "KafkaAdminClient"):
        _wrap(
            getattr(module, name),
            lambda given, words: _underscored(given, words, ssl_cafile=str(home() / "ca.pem")),
        )


def _with_context(given: tuple[Any, ...], keywords: dict[str, Any]) -> _Arguments:
    import ssl

    context = ssl.create_default_context(cafile=str(home() / "ca.pem"))
    return _underscored(given, keywords, ssl_context=context)


def _aiokafka(module: ModuleType) -> None:
    for name in ("AIOKafkaProducer", "AIOKafkaConsumer"):
        _wrap(getattr(module, name), _with_context)


def _aiokafka_admin(module: ModuleType) -> None:
    _wrap(module.AIOKafkaAdminClient, _with_context)


def _ours(given: tuple[Any, ...], keywords: dict[str, Any]) -> _Arguments:
    settings = dict(given[0] or {}) if given else {}
    servers = settings.get("bootstrap.servers", keywords.get("bootstrap_servers"))
    if "security.protocol" in settings or "security_protocol" in keywords:
        return given, keywords
    if not is_secured(servers):
        return given, keywords
    return ({**dotted(), **settings}, *given[1:]), keywords


_CHANGES: dict[str, Callable[[ModuleType], None]] = {
    "confluent_kafka": _confluent,
    "confluent_kafka.admin": _confluent_admin,
    "kafka": _kafka_python,
    "aiokafka": _aiokafka,
    "aiokafka.admin": _aiokafka_admin,
    "barnabas.config.client": lambda module: _wrap(module.ClientConfig, _ours),
}


class ChangingLoader(Loader):
    """One module's own: several modules may share the loader that it asks."""

    def __init__(self, plain: Any, change: Callable[[ModuleType], None]) -> None:
        self._plain = plain
        self._change = change

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plain, name)

    def create_module(self, spec: Any) -> Any:
        return self._plain.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._plain.exec_module(module)
        self._change(module)


class SecuredImports(MetaPathFinder):
    """Changes a library right after it was imported."""

    def __init__(self) -> None:
        self._looking: set[str] = set()

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        change = _CHANGES.get(fullname)
        if change is None or fullname in self._looking:
            return None
        self._looking.add(fullname)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._looking.discard(fullname)
        if spec is None or spec.loader is None:
            return spec
        spec.loader = ChangingLoader(spec.loader, change)
        return spec


def install() -> None:
    """What was imported before is changed at once."""
    sys.meta_path.insert(0, SecuredImports())
    for name, change in _CHANGES.items():
        if name in sys.modules:
            change(sys.modules[name])


if __name__ == "sitecustomize" and "SECURED_HOME" in os.environ:
    install()
