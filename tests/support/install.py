"""Finds a program, or fetches it from the system's packages where that is possible.

Only root on a system with apt-get installs anything; `BARNABAS_INSTALL=0` forbids it.
`python -m tests.support.install` fetches every peer ahead of time, so that no test has to wait for
a download, and says what it could not get.
"""

import os
import shutil
from collections.abc import Callable

from tests.support.cache import Missing, forget_failures, locked, run

# program: Debian's package
PACKAGES = {
    "java": "openjdk-17-jdk-headless",
    "javac": "openjdk-17-jdk-headless",
    "mvn": "maven",
    "node": "nodejs",
    "npm": "npm",
    "kcat": "kcat",
    "chromium": "chromium",
}
APT_TIMEOUT_S = 590


def program(name: str) -> str:
    """The path of a program, installing its package first if need be."""
    found = shutil.which(name)
    if found:
        return found
    package = PACKAGES.get(name)
    if package is None:
        raise Missing(f"{name} is not installed")
    if os.environ.get("BARNABAS_INSTALL") == "0":
        raise Missing(f"{name} is not installed, and BARNABAS_INSTALL=0 forbids fetching it")
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise Missing(f"{name} is not installed (Debian's package: {package})")
    with locked("apt"):
        found = shutil.which(name)
        return found or _apt_get(name, package)


def _apt_get(name: str, package: str) -> str:
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", package]
    what = f"{name} from Debian's {package}"
    try:
        run(install, timeout_s=APT_TIMEOUT_S, env=quiet, what=what)
    except Missing:
        # The package lists may never have been fetched, or be out of date.
        run(["apt-get", "update", "-qq"], timeout_s=APT_TIMEOUT_S, env=quiet, what=what)
        run(install, timeout_s=APT_TIMEOUT_S, env=quiet, what=what)
    found = shutil.which(name)
    if not found:
        raise Missing(f"{package} was installed but brought no {name}")
    return found


def main() -> None:
    from tests.support import browser, go, java, node, s3, spark

    parts: dict[str, Callable[[], object]] = {
        "Apache Kafka's jars": java.kafka_lib,
        "the Java test programs": java.java_programs,
        "Kafka Streams": java.streams_programs,
        "Spark's Kafka connector": spark.connector_jars,
        "kafkajs": node.kafkajs,
        "franz-go": go.franz_go,
        "chromium": lambda: program("chromium"),
        "axe": browser.axe,
        "versitygw, an S3 server": s3.versitygw,
        "kcat": lambda: program("kcat"),
    }
    forget_failures()
    for name, fetch in parts.items():
        try:
            fetch()
        except Missing as missing:
            print(f"{name}: not here: {missing}")


if __name__ == "__main__":
    main()
