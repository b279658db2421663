"""Print the lines of code of each room of the package: `make sizes`."""

from __future__ import annotations

import pathlib
from collections import Counter

PACKAGE = pathlib.Path(__file__).parent.parent / "dataflow_model"


def lines_by_room(package: pathlib.Path) -> Counter[str]:
    """Return the lines of each folder, without those of the folders in it."""
    lines: Counter[str] = Counter()
    for path in package.rglob("*.py"):
        room = path.parent.relative_to(package.parent).as_posix()
        lines[room] += len(path.read_text(encoding="utf-8").splitlines())
    return lines


def table(lines: Counter[str]) -> str:
    """Return one line for each room: the lines of its own modules, and those with the rooms in it."""
    rows = [f"{'room':44}{'own':>8}{'in all':>8}"]
    for room, own in sorted(lines.items()):
        inside = sum(count for other, count in lines.items() if other == room or other.startswith(f"{room}/"))
        rows.append(f"{room:44}{own:8,}{inside:8,}")
    return "\n".join(rows)


if __name__ == "__main__":
    print(table(lines_by_room(PACKAGE)))
