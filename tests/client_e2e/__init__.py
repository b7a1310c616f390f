"""Our client, the same tests against Barnabas and against Apache Kafka where it can be had."""

import pytest

pytestmark = pytest.mark.slow
