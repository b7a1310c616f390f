"""A transform that cannot be had is one line, whatever stands in its module."""

from pathlib import Path

import pytest

from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.run.transform import function


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def f(:\n", r"cannot be imported: SyntaxError: .*, line 1\)$"),
        ("x = 1\nraise ValueError('no\\nway')\n", r"cannot be imported: ValueError: no way, .*:2$"),
        ("import sys\nsys.exit(3)\n", r"cannot be imported: SystemExit: 3, .*:2$"),
        ("import no_such_thing\n", "No module named 'no_such_thing'"),
        ("f = 3\n", "is no function"),
        ("", "has no function f"),
    ],
    ids=["syntax", "error", "exit", "import", "number", "nothing"],
)
def test_a_module_with_a_mistake_is_one_line(
    text: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    name = f"steps_{request.node.callspec.id}"
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(PipelineError, match=said) as refused:
        function(f"{name}:f")
    assert len(str(refused.value).splitlines()) == 1
