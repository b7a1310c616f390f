"""Barnabas beside Apache Kafka: same requests, same files, same answers."""

import pytest

pytestmark = pytest.mark.slow
