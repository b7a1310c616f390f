"""Brokers as processes, in a cluster, with faults."""

import pytest

pytestmark = pytest.mark.slow
