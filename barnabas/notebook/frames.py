"""Arrow tables as data frames of pandas and polars, if these are installed."""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from barnabas.config.option import invalid

if TYPE_CHECKING:
    import pyarrow


def require(package: str, install: str) -> None:
    if find_spec(package) is None:
        raise invalid(f"{package} is not installed: pip install {install}")


def pandas_frame(rows: "pyarrow.Table") -> Any:
    require("pandas", "pandas")
    return rows.to_pandas()


def polars_frame(rows: "pyarrow.Table") -> Any:
    require("polars", "polars")
    import polars

    return polars.from_arrow(rows)
