"""Tables in memory that data frames take over."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._framewire import Table as _Table

if TYPE_CHECKING:
    import numpy.typing as npt


def _needed(module: str, what: str) -> Any:  # noqa: ANN401
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(f"{what} needs {module}: pip install {module}") from error


class Table:
    """Columns in memory, behind Arrow's PyCapsule interface.

    ``polars.DataFrame(table)``, ``pyarrow.table(table)`` and a query of duckdb that names the table take the
    columns over without a copy; the methods here do the same by name. Times are integers: nanoseconds of
    virtual time since the start of the run. What did not happen is null. Each column says what it holds and
    in which unit in :attr:`columns`, and as ``about`` in the Arrow field's metadata; the schema's metadata
    name scenario, seed, commit and hash.
    """

    def __init__(self, table: _Table) -> None:
        """Of a :class:`framewire.Result`."""
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Arrow's C stream interface."""
        return self._table.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """Arrow's C data interface, the schema alone."""
        return self._table.__arrow_c_schema__()

    @property
    def columns(self) -> dict[str, str]:
        """What each column holds, with its unit, by name."""
        return dict(self._table.columns())

    def __len__(self) -> int:
        return self._table.rows()

    def __getitem__(self, column: str) -> npt.NDArray[Any]:
        """A column as an array of numpy, one value a row; a copy.

        Whole numbers are ``int64``, or ``float64`` with NaN where one is missing; real numbers are
        ``float64`` with NaN; flags are ``bool``, or ``object`` with None where one is missing; text is
        ``object``.

        Raises
        ------
        KeyError
            If there is no such column.
        """
        np = _needed("numpy", "a column of a table")
        held = self._table.values(column)
        if held[0] == "text":
            return np.array(held[1], dtype=object)  # type: ignore[no-any-return]
        kind, values, there = held
        array = np.frombuffer(values, dtype={"int": "int64", "real": "float64", "flag": "bool"}[kind])
        missing = ~np.frombuffer(there, dtype=bool)
        if kind == "flag":
            array = array.astype(object) if missing.any() else array.copy()
        else:
            array = array.astype("float64") if missing.any() else array.copy()
        if missing.any():
            array[missing] = None if kind == "flag" else np.nan
        return array  # type: ignore[no-any-return]

    def to_pyarrow(self) -> Any:  # noqa: ANN401
        """A ``pyarrow.Table`` of the same memory. Needs pyarrow."""
        return _needed("pyarrow", "to_pyarrow()").table(self)

    def to_pandas(self) -> Any:  # noqa: ANN401
        """A ``pandas.DataFrame``. Needs pandas and pyarrow."""
        _needed("pandas", "to_pandas()")
        return self.to_pyarrow().to_pandas()

    def to_polars(self) -> Any:  # noqa: ANN401
        """A ``polars.DataFrame`` of the same memory. Needs polars."""
        return _needed("polars", "to_polars()").DataFrame(self)

    def __repr__(self) -> str:
        return f"<Table of {len(self)} rows: {', '.join(self.columns)}>"
