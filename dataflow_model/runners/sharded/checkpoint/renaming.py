"""Renamed transforms: what an old checkpoint has under their old labels gets the new ones in the new checkpoint."""

from __future__ import annotations

import pathlib
import re
import shutil
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Self

import attrs

from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.runners.sharded.checkpoint.durable import file_name, make_folder
from dataflow_model.runners.sharded.checkpoint.parts import read_document, read_part, write_document, write_part

if TYPE_CHECKING:
    from collections.abc import Collection

    from dataflow_model.plan.logical.state_parts import Parts
    from dataflow_model.runners.sharded.checkpoint.record import RunRecord

_SCOPE: Final = "/"
_BY_LABEL: Final = ("counters", "sinks", "state", "watermarks", "jumps", "reach", "clocks", "versions", "collected")
"""The entries of the progress that are by label."""
_OF_TALLY: Final = ("own", "users", "slow")
"""The parts of a tally that are by label."""
_ENDINGS: Final = ("", ".pickle", ".json", ".arrow")
"""How the names of files and folders of a label end."""


@attrs.frozen
class Renames:
    """The transforms that get another label.

    Attributes:
        given: what the user has passed: new labels by old ones, which may be those of composite transforms.
        labels: the new label of each renamed transform, by its old one.

    Example:
        >>> renames = Renames.among(["hourly/sums", "rows"], {"hourly": "by hour"})
        >>> renames.new("hourly/sums"), renames.new("rows"), renames.old("by hour/sums")
        ('by hour/sums', 'rows', 'hourly/sums')
    """

    given: Mapping[str, str] = attrs.field(factory=dict)
    labels: Mapping[str, str] = attrs.field(factory=dict)

    @classmethod
    def among(cls, known: Collection[str], given: object) -> Self:
        """Return the renames of some labels.

        Args:
            known: the labels of the old pipeline.
            given: new labels by old ones. That of a composite transform renames all transforms in it.

        Raises:
            InvalidType: if it is no mapping of texts.
            InvalidArgument: for a label that the old pipeline does not have, or if two transforms would have one label.
        """
        if not isinstance(given, Mapping) or not all(
            isinstance(label, str) for pair in given.items() for label in pair
        ):
            raise InvalidType(
                f"`rename` must map old labels to new ones, got {given!r}", hint="write rename={'sums': 'totals'}"
            )
        labels: dict[str, str] = {}
        for old, new in given.items():
            renamed = [label for label in known if label == old or label.startswith(f"{old}{_SCOPE}")]
            if not renamed or not old:
                raise InvalidArgument(
                    f"`rename` must name transforms of the old pipeline, got {old!r}",
                    hint=f"its transforms are {', '.join(map(repr, known))}",
                )
            if not new or "\0" in new:
                raise InvalidArgument(f"the new label of {old!r} must be a text, got {new!r}", hint="write OLD=NEW")
            for label in renamed:
                if label in labels and label != old:  # the more specific one decides
                    continue
                labels[label] = new + label[len(old) :]
        _check_distinct(known, labels)
        return cls(dict(given), labels)

    def new(self, label: str) -> str:
        """Return the new label of a transform."""
        return self.labels.get(label, label)

    def old(self, label: str) -> str:
        """Return the old label of a transform, given its new one."""
        return next((old for old, new in self.labels.items() if new == label), label)

    def by_label(self, entries: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is known by label under the new labels."""
        return {self.new(label): entry for label, entry in entries.items()}

    def cut(self, cut: str) -> str:
        """Return the new name of a cut, that of a side input among them."""
        label, sign, side = cut.partition("\0")
        return self.new(label) + sign + side

    def lines(self, fingerprint: Mapping[str, str]) -> dict[str, str]:
        """Return a fingerprint with the new labels, also of the inputs that its lines name.

        Example:
            >>> Renames.among(["rows", "sums"], {"rows": "flights"}).lines({"sums": "grouping of rows.main with Sum"})
            {'sums': 'grouping of flights.main with Sum'}
        """
        if not self.labels:
            return dict(fingerprint)
        longest_first = sorted(map(re.escape, self.labels), key=len, reverse=True)
        inputs = re.compile(rf"(?P<before>\b(?:of|for|and) )(?P<label>{'|'.join(longest_first)})(?=\.)")
        return {
            self.new(label): inputs.sub(lambda found: found["before"] + self.labels[found["label"]], line)
            for label, line in fingerprint.items()
        }

    def record(self, record: RunRecord) -> RunRecord:
        """Return the record of the old run under the new labels."""
        marks = self.by_label(record.marks) | {
            self.new(label): record.marks.get(label, label) for label in record.destinations if label in self.labels
        }
        return attrs.evolve(
            record,
            fingerprint=self.lines(record.fingerprint),
            definitions=self.by_label(record.definitions),
            stages=[list(map(self.new, stage)) for stage in record.stages],
            parts={self.new(label): self._parts(parts) for label, parts in record.parts.items()},
            columns=self.by_label(record.columns),
            destinations=self.by_label(record.destinations),
            marks=marks,
            groupings=self.by_label(record.groupings),
            functions=self.by_label(record.functions),
        )

    def progress(self, progress: Mapping[str, Any]) -> dict[str, Any]:
        """Return the progress of the old run under the new labels."""
        renamed = {name: self.by_label(entry) if name in _BY_LABEL else entry for name, entry in progress.items()}
        if "ended" in progress:
            renamed["ended"] = list(map(self.new, progress["ended"]))
        if "tally" in progress:
            tally = progress["tally"]
            renamed["tally"] = {name: self.by_label(of) if name in _OF_TALLY else of for name, of in tally.items()}
        return renamed

    def file(self, name: str) -> str:
        """Return the new name of a file or folder, which begins with a label."""
        names = {file_name(label, end): file_name(to, end) for label, to in self.labels.items() for end in _ENDINGS}
        return names.get(name, name)

    def copy(self, old: pathlib.Path, new: pathlib.Path, folder: str) -> None:
        """Copy a folder of the common part of a checkpoint; files that belong to a label get the new names.

        Args:
            old: the common part of the checkpoint.
            new: that of the new one.
            folder: the name of the folder.
        """
        if not self.labels:
            shutil.copytree(old / folder, new / folder)
            return
        for path in sorted((old / folder).rglob("*")):
            if path.is_dir():
                continue
            first, *rest = path.relative_to(old / folder).parts
            before, after = (str(pathlib.Path(folder, name, *rest)) for name in (first, self.file(first)))
            make_folder((new / after).parent)
            if before == after or path.suffix == ".arrow":
                shutil.copy2(path, new / after)
            elif path.suffix == ".json":
                write_document(new, after, read_document(old, before) or {})
            else:  # a part contains its own name
                write_part(new, after, read_part(old, before))

    def _parts(self, parts: Parts) -> Parts:
        """Return the parts of a state; those of side inputs name what produces them."""
        return [[name, kind, *map(self.new, producers)] for name, kind, *producers in parts]


def _check_distinct(known: Collection[str], labels: Mapping[str, str]) -> None:
    """Raise `InvalidArgument` if two transforms would have one label."""
    taken: dict[str, str] = {label: label for label in known if label not in labels}
    for old, new in labels.items():
        if new in taken:
            other = taken[new]
            problem = (
                f"{new!r} is the label of another transform of the old pipeline"
                if other == new
                else f"{other!r} and {old!r} would both be called {new!r}"
            )
            raise InvalidArgument(
                f"{old!r} cannot be renamed to {new!r}: {problem}",
                hint=f"choose another label, or rename {new!r} too" if other == new else "give each its own label",
            )
        taken[new] = old
