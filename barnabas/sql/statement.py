"""What a query reads: its topics, and the ranges that its conditions leave.

In: the query as DuckDB parses it (json_serialize_sql). Out: topics and conditions.
Always: a shape that is not known leaves a condition out, and so reads more, never less.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

AGGREGATES = frozenset(
    {"avg", "count", "count_star", "sum", "min", "max", "first", "last", "any_value", "median",
     "list", "string_agg", "approx_count_distinct", "quantile_cont", "mode", "arg_max", "arg_min"}
)  # fmt: skip
LATEST = "latest"
_FLIPPED = {
    "COMPARE_GREATERTHAN": "COMPARE_LESSTHAN",
    "COMPARE_LESSTHAN": "COMPARE_GREATERTHAN",
    "COMPARE_GREATERTHANOREQUALTO": "COMPARE_LESSTHANOREQUALTO",
    "COMPARE_LESSTHANOREQUALTO": "COMPARE_GREATERTHANOREQUALTO",
    "COMPARE_EQUAL": "COMPARE_EQUAL",
}
Node = dict[str, Any]


@dataclass(frozen=True)
class Condition:
    """`column` is compared with a constant; `operator` is one of = < > <= >=."""

    column: str
    operator: str
    value: Any


@dataclass
class Statement:
    """`topics`: how often each is named. `conditions`: those that every row must meet."""

    topics: Counter[str] = field(default_factory=Counter)
    conditions: list[Condition] = field(default_factory=list)
    can_follow: bool = True
    limit_only: bool = False


_OPERATORS = {
    "COMPARE_EQUAL": "=",
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_LESSTHAN": "<",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
    "COMPARE_LESSTHANOREQUALTO": "<=",
}


def read_statement(serialized: Node, evaluate: Callable[[Node], Any]) -> Statement:
    """ValueError if it is not one SELECT. `evaluate`: the value of an expression of constants."""
    if serialized.get("error"):
        message = str(serialized.get("error_message", "it cannot be parsed"))
        if "Only SELECT" in message:
            message = "only SELECT is allowed: topics are written with produce"
        raise ValueError(message)
    statements = serialized.get("statements") or []
    if len(statements) != 1:
        raise ValueError("expected one statement")
    node = statements[0]["node"]
    found = Statement()
    local = {name.lower() for name in _cte_names(node)}
    for each in _nodes(node):
        kind = each.get("type")
        if kind == "BASE_TABLE" and each.get("table_name", "").lower() not in local:
            if each.get("schema_name") or each.get("catalog_name"):
                raise ValueError(
                    f'{each["table_name"]!r}: a topic with dots is written in quotes, as "a.b"'
                )
            found.topics[each["table_name"]] += 1
        elif kind == "TABLE_FUNCTION":
            function = each.get("function", {})
            if function.get("function_name") == LATEST:
                found.topics[_latest_topic(function)] += 1
        if kind == "FUNCTION" and each.get("function_name", "").lower() in AGGREGATES:
            found.can_follow = False
        if kind in ("JOIN", "SUBQUERY", "SET_OPERATION_NODE", "WINDOW"):
            found.can_follow = False
        if kind == "ORDER_MODIFIER" and each.get("orders"):  # functions have an empty one
            found.can_follow = False
        if each.get("group_expressions") or each.get("type") == "TABLE_FUNCTION":
            found.can_follow = False
    if node.get("type") == "SELECT_NODE" and _is_one_topic(node):
        found.conditions = list(_conditions(node.get("where_clause"), evaluate))
        kinds = [each.get("type") for each in node.get("modifiers", ())]
        found.limit_only = found.can_follow and kinds == ["LIMIT_MODIFIER"]
    return found


def _is_one_topic(node: Node) -> bool:
    return (node.get("from_table") or {}).get("type") == "BASE_TABLE" and not _cte_names(node)


def _cte_names(node: Node) -> list[str]:
    entries = (node.get("cte_map") or {}).get("map") or []
    return [str(entry.get("key", "")) for entry in entries]


def _latest_topic(function: Node) -> str:
    try:
        literal = function["arguments"][0]["expression"]["literal"]
        return str(literal["text"])
    except (KeyError, IndexError, TypeError):
        raise ValueError("latest: write the topic as text: latest('orders')") from None


def _nodes(value: Any) -> Iterator[Node]:
    """All objects of the tree."""
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, dict):
            yield each
            left += each.values()
        elif isinstance(each, list):
            left += each


def _conditions(where: Any, evaluate: Callable[[Node], Any]) -> Iterator[Condition]:
    if not isinstance(where, dict):
        return
    if where.get("type") == "CONJUNCTION_AND":
        for child in where.get("children", ()):
            yield from _conditions(child, evaluate)
        return
    operator = where.get("type", "")
    if operator not in _OPERATORS:
        return
    left, right = where.get("left"), where.get("right")
    if isinstance(right, dict) and right.get("type") == "COLUMN_REF":
        left, right, operator = right, left, _FLIPPED[operator]
    if not isinstance(left, dict) or left.get("type") != "COLUMN_REF":
        return
    if any(each.get("type") in ("COLUMN_REF", "SUBQUERY") for each in _nodes(right)):
        return
    try:
        value = evaluate(right if isinstance(right, dict) else {})
    except Exception:  # any shape that is not known: DuckDB filters by itself
        return
    yield Condition(str(left["column_names"][-1]).lower(), _OPERATORS[operator], value)
