"""The seed of an upgraded run: the state of an old run, in files that do not depend on its pipeline, shards or stages.

`manifest.json` lists the contents, with a checksum for each file; `carried.pickle` is the shards' state apart from
keys; `keys/<label>/<old shard>.pickle` contains the stored entries of one transform. When the shards of the new run
start, each takes its share.
"""

from __future__ import annotations

import pathlib
import zlib
from typing import TYPE_CHECKING, Any, Final, Self

import attrs

from dataflow_model.errors import StateCorruption
from dataflow_model.runners.engine.state.resharding import Share
from dataflow_model.runners.sharded.checkpoint.durable import file_name, make_folder, read_file, write_file
from dataflow_model.runners.sharded.checkpoint.groupings import GroupingRecord
from dataflow_model.runners.sharded.checkpoint.parts import as_part, from_part, read_document, write_document
from dataflow_model.runners.sharded.feed.offsets import Offset
from dataflow_model.runners.sharded.upgrade.carried import share
from dataflow_model.runners.sharded.upgrade.renewal import Renewal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dataflow_model.plan.logical.state_parts import Parts
    from dataflow_model.runners.engine.machines.shard import StageShard
    from dataflow_model.runners.sharded.state.log import Delta
    from dataflow_model.runners.sharded.tasks.program import Program
    from dataflow_model.runners.sharded.tasks.shard_meta import ShardMeta
    from dataflow_model.runners.sharded.upgrade.carried import Carried

_MANIFEST: Final = "manifest.json"
_CARRIED: Final = "carried.pickle"


@attrs.frozen
class Manifest:
    """The contents of a seed.

    Attributes:
        old: the checkpoint from which it was made.
        run_id: the id of the old run, which the new run keeps.
        edition: the edition of the new run.
        shards: the number of shards of the old run.
        batch: the old run's last committed micro-batch.
        fingerprint, definitions: those of the old pipeline.
        parts: the parts of the state of its transforms.
        percentiles: the percentiles of the watermark that the old pipeline used.
        columns: the groupings that kept their state in columns.
        keys: the number of keys of each transform.
        waiting: the number of buffered elements of each transform.
        offset: the offset of the sources.
        drop: the transforms whose state may be lost.
        checksums: the checksum of each file.
        watermarks: the watermarks to which sources are moved back at the user's request.
        renamed: what the user has passed as `rename`; all labels in the manifest are the new ones.
        labels: the new labels of the transforms that were renamed, by the old ones.
        marks, groupings, functions: see `RunRecord`.
        holdings: what the state of each grouping holds, a `Holding` by label.
    """

    old: str
    run_id: str
    edition: str
    shards: int
    batch: int
    fingerprint: dict[str, str]
    definitions: dict[str, str]
    percentiles: list[float]
    columns: list[str]
    keys: dict[str, int]
    waiting: dict[str, int]
    offset: Offset
    drop: list[str]
    checksums: dict[str, int]
    parts: dict[str, Parts] = attrs.field(factory=dict)
    watermarks: dict[str, int] = attrs.field(factory=dict)
    renamed: dict[str, str] = attrs.field(factory=dict)
    labels: dict[str, str] = attrs.field(factory=dict)
    marks: dict[str, str] = attrs.field(factory=dict)
    groupings: dict[str, dict[str, Any]] = attrs.field(factory=dict)
    functions: dict[str, dict[str, Any]] = attrs.field(factory=dict)
    holdings: dict[str, dict[str, int]] = attrs.field(factory=dict)

    @classmethod
    def read(cls, folder: pathlib.Path) -> Self | None:
        """Return the manifest in a folder; `None` if there is none.

        Raises:
            CheckpointMismatch: if another version of the package wrote it in another format.
            StateCorruption: if it is damaged.
        """
        try:
            fields = read_document(folder, _MANIFEST)
        except StateCorruption as error:
            raise damaged_seed(folder / _MANIFEST, str(error).partition("\n")[0]) from error
        return None if fields is None else cls(**{**fields, "offset": Offset.of_json(fields["offset"])})


@attrs.define
class SeedWriter:
    """Writes a seed, which is complete only when `finish` has written the manifest.

    Attributes:
        folder: where; `None` if nothing is written, as when only the manifest is wanted.
        checksums: the checksums of the files so far.
    """

    folder: pathlib.Path | None
    checksums: dict[str, int] = attrs.field(init=False, factory=dict)

    def keys(self, label: str, shard: int, entries: Mapping[bytes, Any]) -> None:
        """Write the stored entries of one transform on one of the old shards."""
        self._write(_name_of(label, shard), dict(entries))

    def finish(self, carried: Carried, **manifest: Any) -> Manifest:
        """Write the other files, the manifest last."""
        self._write(_CARRIED, carried)
        document = Manifest(checksums=self.checksums, **manifest)
        if self.folder is not None:
            write_document(self.folder, _MANIFEST, attrs.asdict(document) | {"offset": document.offset.to_json()})
        return document

    def _write(self, name: str, value: Any) -> None:
        if self.folder is None:
            return
        content = as_part(name, value)
        self.checksums[name] = zlib.crc32(content)
        path = self.folder / name
        make_folder(path.parent)
        write_file(path, content)


@attrs.frozen
class Seed:
    """A seed, as the shards of a new run use it.

    Attributes:
        folder: its folder.
        known: the labels of transforms that continue with their state.
        anew: the sources among them whose watermark starts again.
        renewed: the groupings among them that have another trigger, mode or lateness.
    """

    folder: str
    known: frozenset[str]
    anew: frozenset[str] = frozenset()
    renewed: frozenset[str] = frozenset()

    def of_shard(self, program: Program, stage: StageShard, index: int) -> Delta:
        """Return the initial state of a shard of the new run.

        Args:
            program: the program of the new run.
            stage: the new machines of the shard.
            index: the index of the shard, from 0.

        Raises:
            StateCorruption: if a file is missing or damaged.
        """
        manifest, carried = self._carried(program)
        own_share = Share(index, len(program.shard_ids))

        def entries(label: str) -> Iterator[Mapping[bytes, Any]]:
            for shard in range(manifest.shards):
                name = _name_of(label, shard)
                if label in self.known and name in manifest.checksums and own_share.meets(shard, manifest.shards):
                    yield self._read(manifest, name)

        before = {label: GroupingRecord(**manifest.groupings[label]) for label in self.renewed}
        lateness = {label: int(function["lateness"]) for label, function in manifest.functions.items()}
        renewal = Renewal(before, frozenset(manifest.columns), lateness)
        return share(carried, program, stage, own_share, entries, renewal)

    def of_sources(self, program: Program) -> ShardMeta:
        """Return the initial state of the sources of a new run without keyed stages.

        Args:
            program: the program of the new run.

        Raises:
            StateCorruption: if a file is missing or damaged.
        """
        _, carried = self._carried(program)
        return carried.of_sources({read.label for read in program.staged.sources})

    def _carried(self, program: Program) -> tuple[Manifest, Carried]:
        """Return the manifest, and the part of the old run's state that the new one uses."""
        manifest = Manifest.read(pathlib.Path(self.folder))
        if manifest is None:
            raise damaged_seed(pathlib.Path(self.folder, _MANIFEST), "it is missing")
        carried: Carried = self._read(manifest, _CARRIED)
        carried.restrict(self.known, self.anew, program.staged.percentiles, manifest.percentiles)
        if carried.replay is not None:
            for label in sorted(self.anew):
                carried.replay.declare(label, program.staged.source(label).watermark_origins.partitions)
        if manifest.watermarks:
            carried.move_back(manifest.watermarks, program.staged)
        return manifest, carried

    def _read(self, manifest: Manifest, name: str) -> Any:
        path = pathlib.Path(self.folder, name)
        try:
            content = read_file(path)
        except FileNotFoundError as error:
            raise damaged_seed(path, str(error)) from error
        if zlib.crc32(content) != manifest.checksums[name]:
            raise damaged_seed(path, "it fails its checksum")
        return from_part(content, name, repr(str(path)))


def _name_of(label: str, shard: int) -> str:
    return f"keys/{file_name(label)}/{shard:04d}.pickle"


def damaged_seed(path: pathlib.Path, problem: str) -> StateCorruption:
    """Return the error for damage in what an upgrade has written."""
    return StateCorruption(
        f"the initial state of an upgraded run is damaged in {str(path)!r}: {problem}",
        hint="upgrade the old checkpoint again into a new directory; it was not modified",
    )
