"""Schemas of a Confluent-style registry, by number or the latest of a subject."""

import json
import urllib.error
import urllib.parse
import urllib.request

from barnabas.pipeline.errors import OptionError, PipelineError

_TIMEOUT_S = 10
_NOT_FOUND = 404
_ANSWER_SIZE_MAX = 4 * 1024 * 1024


def latest_schema(address: str, subject: str) -> str:
    return _schema(address, f"subjects/{urllib.parse.quote(subject, safe='')}/versions/latest")


def schema_by_id(address: str, number: int) -> str:
    """ValueError if the registry has no such number."""
    return _schema(address, f"schemas/ids/{number}")


def _schema(address: str, path: str) -> str:
    if not address.startswith(("http://", "https://")):
        raise OptionError(f"schemaRegistry: expected http://HOST:PORT, got {address[:200]!r}")
    url = f"{address.rstrip('/')}/{path}"
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer:
            text = answer.read(_ANSWER_SIZE_MAX)
    except urllib.error.HTTPError as problem:
        if problem.code == _NOT_FOUND and path.startswith("schemas/"):
            raise ValueError(f"the registry has no schema {path.rpartition('/')[2]}") from None
        raise PipelineError(f"schema registry: {url} was answered with {problem.code}") from None
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "reason", problem)
        raise PipelineError(f"schema registry: {url} did not answer: {reason}") from None
    try:
        return str(json.loads(text)["schema"])
    except (ValueError, KeyError, TypeError):
        raise PipelineError(f"schema registry: {url} answered something else") from None
