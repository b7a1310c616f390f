"""Faults of the operating system, injected into running brokers at every call site in turn."""

import pytest

pytestmark = pytest.mark.slow
