"""The code in docs/SPARK.md runs as it stands."""

import re
from typing import Any

from tests.support.cache import ROOT

PAGE = ROOT / "docs" / "SPARK.md"


def test_the_code_of_the_page_runs(spark: Any, our_broker: Any) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) >= 5
    code = "\n".join(blocks).replace("localhost:9092", our_broker.bootstrap_servers)
    exec(compile(code, str(PAGE), "exec"), {})
