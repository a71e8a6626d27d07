"""The notebooks' cells, run in order. Skipped where pandas or matplotlib is absent."""

import json
import os
from pathlib import Path

import pytest

pytest.importorskip("pandas")
pytest.importorskip("matplotlib").use("agg")

CHECKOUT = Path(os.environ.get("FRAMEWIRE_CHECKOUT", Path(__file__).parents[3]))
NOTEBOOKS = sorted((CHECKOUT / "python/notebooks").glob("*.ipynb"))


def test_there_are_five() -> None:
    assert [path.name[0] for path in NOTEBOOKS] == ["1", "2", "3", "4", "5"]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(notebook: Path) -> None:
    cells = json.loads(notebook.read_text())["cells"]
    codes = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert codes and all(cell["outputs"] for cell in cells if cell["cell_type"] == "code" and shows(cell))
    space: dict[str, object] = {"__name__": "__main__"}
    for number, code in enumerate(codes, 1):
        exec(compile(code, f"{notebook.name}, cell {number}", "exec"), space)


def shows(cell: dict[str, list[str]]) -> bool:
    """Whether a cell draws or prints, so that the stored notebook must show something."""
    return any("print(" in line or "plt." in line for line in cell["source"])
