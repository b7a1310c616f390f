"""Other people's clients and tools, used on Barnabas as their users would."""

import pytest

pytestmark = pytest.mark.slow
