"""Write into docs/how.md what is right for the panes of a grouping, from the rules that `run()` checks.

Run it after a change to `plan.endpoints.outcomes`:

    python -m scripts.outcomes
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from dataflow_model.plan.endpoints.outcomes import Firings, Mode, Outcome, Reader, Verdict, Windows, outcome
from scripts.generated_parts import markdown_table, with_part

__all__ = ["PAGE", "page_with_tables", "tables"]

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "how.md"
_GROUPS: Final = {
    "one pane": (Firings.ON_TIME,),
    "early or late": (Firings.EARLY, Firings.LATE, Firings.EARLY_AND_LATE),
    "once, any time": (Firings.ONCE,),
    "reopened": (Firings.REOPENED,),
}
"""The columns of the table, each with firings that always have the same outcome."""


def page_with_tables(page: str) -> str:
    """Return the page with the tables as they are now."""
    return with_part(page, "outcomes", tables())


def tables() -> str:
    """Return a row for each reader and mode, then the text of each outcome by its number.

    Example:
        >>> tables().splitlines()[0]
        '| the panes go to | mode | one pane | early or late | once, any time | reopened |'
    """
    numbers: dict[Outcome, int] = {}
    rows = [["the panes go to", "mode", *_GROUPS]]
    for reader in Reader:
        for mode in Mode:
            cells = [_cell(mode, firings, reader, numbers) for firings in _GROUPS.values()]
            rows.append([reader.value if mode is Mode.DISCARDING else "", mode.value, *cells])
    texts = [["", "how to read the result, or what is wrong", "instead"]]
    for answer, number in numbers.items():
        way_out = answer.way_out.replace("{grouping}", "the first grouping")
        texts.append([f"{number}", f"*{answer.verdict.value}*: {answer.why}", way_out])
    return f"{markdown_table(rows)}\n{markdown_table(texts)}"


def _cell(mode: Mode, firings: tuple[Firings, ...], reader: Reader, numbers: dict[Outcome, int]) -> str:
    """Return the outcomes for windows that stay, and for others where they differ."""
    by_windows: dict[Windows, Outcome] = {}
    for windows in Windows:
        answers = {outcome(mode, firing, windows, reader) for firing in firings}
        if len(answers) != 1:
            raise ValueError(f"the firings of a column differ: {mode}, {firings}, {windows}, {reader}")
        by_windows[windows] = answers.pop()
    parts = [_shown(by_windows[Windows.STAY], numbers)]
    for windows, word in ((Windows.MERGE, "merging"), (Windows.VANISH, "vanishing")):
        can_be = windows is not Windows.MERGE or Firings.ONCE not in firings
        if can_be and by_windows[windows] != by_windows[Windows.STAY]:
            parts.append(f"{word}: {_shown(by_windows[windows], numbers)}")
    return "; ".join(parts)


def _shown(answer: Outcome, numbers: dict[Outcome, int]) -> str:
    number = numbers.setdefault(answer, len(numbers) + 1)
    text = f"{answer.verdict.value} ({number})"
    return text if answer.verdict is Verdict.RIGHT else f"**{text}**"


if __name__ == "__main__":
    PAGE.write_text(page_with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
