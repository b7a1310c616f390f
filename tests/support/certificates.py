"""Certificates for tests: an authority that signs whatever a test needs, good or bad."""

from dataclasses import dataclass
from pathlib import Path

from barnabas.cli.security.dev_certificates import PKCS12_PASSWORD, DevAuthority

HOSTS = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Pki:
    """A directory with ca.pem, server.pem and the certificates of users."""

    directory: Path
    password: str = PKCS12_PASSWORD

    def path(self, name: str) -> str:
        return str(self.directory / name)

    def user(self, name: str, days: int = 100) -> str:
        DevAuthority(str(self.directory), days).user(name)
        return self.path(f"{name}.pem")

    def server(self, name: str, *hosts: str, days: int = 100) -> str:
        DevAuthority(str(self.directory), days).server(name, hosts or HOSTS)
        return self.path(f"{name}.pem")

    def broker(self, client_auth: str = "none") -> dict[str, str]:
        """Options of a broker."""
        return {
            "ssl.keystore.location": self.path("server.pem"),
            "ssl.truststore.location": self.path("ca.pem"),
            "ssl.client.auth": client_auth,
        }


def new_pki(directory: Path, *users: str) -> Pki:
    pki = Pki(directory)
    pki.server("server")
    for name in users or ("alice",):
        pki.user(name)
    return pki
