"""Programs that ship with Beam, unmodified, run as `python -m` runs them, and what they write."""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false

from __future__ import annotations

import importlib
import pickle
import runpy
import sys
from typing import TYPE_CHECKING, Final
from unittest import mock

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

TEXT: Final = """Flourish of trumpets: Flourish. to be or not to be
that is the question, to sleep; no more

Flourish stomach KING I
II to a
"""
EDITS: Final = "".join(
    f'{{"contributor_username": "{user}", "timestamp": {at}}}\n'
    for user, at in [("ann", 0), ("ann", 1800), ("ben", 60), ("ann", 9000), ("ben", 3500), ("ben", 3_000_000)]
)
GAME: Final = """user0_Emu,Emu,17,1445230923951,2015-10-19 05:02:03.951
user1_Emu,Emu,3,1445230923951,2015-10-19 05:02:03.951
not a line of the game
user0_Emu,Emu,4,1445234523951,2015-10-19 06:02:03.951
user2_Fox,Fox,9,1445234600000,2015-10-19 06:03:20.000
"""
YAML: Final = """pipeline:
  type: chain
  transforms:
    - type: ReadFromCsv
      config: {{path: "{folder}/scores.csv"}}
    - type: Filter
      config: {{language: python, keep: "score > 2"}}
    - type: MapToFields
      config:
        language: python
        fields: {{team: team, doubled: "score * 2"}}
    - type: Combine
      config:
        group_by: team
        combine: {{total: {{value: doubled, fn: sum}}, most: {{value: doubled, fn: max}}}}
    - type: WriteToJson
      config: {{path: "{folder}/out"}}
"""
SCORES: Final = "team,score\nEmu,17\nEmu,3\nFox,2\nFox,9\n"


@attrs.frozen
class Shipped:
    """A program.

    Attributes:
        module: its module, in `apache_beam`.
        arguments: those apart from the options of Beam; `{folder}` is the folder with its inputs.
        inputs: the texts of its inputs by name, in which `{folder}` is the folder if they are formatted.
        is_quick: whether each run of the tests runs it.
        shown: what is compared of a line that it writes.
        prepare: writes other inputs.
        messages: what it reads from Pub/Sub, each with its event time in seconds.
        header: the first line of each file that it writes, of which there are as many as tasks that write.
        is_one_pipeline: whether it runs one pipeline, so that an option can name its checkpoint.
        lacks: what it needs where its functions run in other processes, but Beam's wheel does not contain.
    """

    module: str
    arguments: str = "--input={folder}/text --output={folder}/out"
    inputs: Mapping[str, str] = attrs.field(factory=lambda: {"text": TEXT}, repr=False)
    is_quick: bool = False
    shown: Callable[[str], str] = str
    prepare: Callable[[Path], None] | None = None
    messages: Sequence[tuple[str, int]] = attrs.field(default=(), repr=False)
    header: str = ""
    is_one_pipeline: bool = True
    lacks: str = ""

    def __str__(self) -> str:
        return self.module

    def run(self, folder: Path, *options: str) -> list[str]:
        """Run it with Beam's options, and return the lines that it writes, sorted.

        Args:
            folder: the folder for its inputs and outputs.
            options: such as `--runner=…`.
        """
        for name, text in self.inputs.items():
            (folder / name).write_text(text.format(folder=folder) if name.endswith(".yaml") else text)
        if self.prepare is not None:
            self.prepare(folder)
        from tests.support.beam.google_services import standing_for  # where Beam is installed

        arguments = self.arguments.format(folder=folder).split()
        own = mock.patch.object(sys, "argv", [self.module, *arguments, *options])
        with own, standing_for(folder, self.messages):
            runpy.run_module(f"apache_beam.{self.module}", run_name="__main__", alter_sys=True)
        written = [path for path in folder.rglob("out*") if path.is_file()]
        lines = [line.replace(str(folder), "") for path in written for line in path.read_text().splitlines()]
        return sorted(self.shown(line) for line in lines if line != self.header or not line)


def _total_and_pi(line: str) -> str:
    """Return the number of trials, and the estimate of pi to one digit: the trials are random."""
    total, _, estimate = line.strip("[]").split(",")
    return f"{total} {float(estimate):.1f}"


def _digits(folder: Path) -> None:
    """Write a model of digits, and some of them."""
    images, labels = importlib.import_module("sklearn.datasets").load_digits(return_X_y=True)
    model = importlib.import_module("sklearn.linear_model").LogisticRegression(max_iter=50)
    model.fit(images[:300], labels[:300])
    (folder / "model").write_bytes(pickle.dumps(model))
    rows = zip(labels[300:330], images[300:330].astype(int), strict=True)
    (folder / "text").write_text("".join(f"{label},{','.join(map(str, image))}\n" for label, image in rows))


SHIPPED: Final = (
    Shipped("examples.wordcount", is_quick=True),
    Shipped("examples.wordcount_minimal"),
    Shipped("examples.wordcount_debugging", inputs={"text": "Flourish Flourish stomach\nFlourish a\n"}),
    Shipped("examples.wordcount_with_metrics"),
    Shipped("examples.dataframe.wordcount", is_quick=True, header="word,count"),
    Shipped(
        "examples.matrix_power",
        "--input_matrix={folder}/matrix --input_vector={folder}/vector --output={folder}/out --exponent=3",
        {"matrix": "0: 1 2\n1: 3 4\n", "vector": "0 1\n1 2\n"},
    ),
    Shipped("examples.complete.autocomplete"),
    Shipped(
        "examples.complete.tfidf",
        "--uris={folder}/document* --output={folder}/out",
        {"document-1": TEXT, "document-2": "to be a question\n"},
    ),
    Shipped("examples.complete.estimate_pi", "--output={folder}/out", {}, shown=_total_and_pi),
    Shipped("examples.complete.juliaset.juliaset_main", "--grid_size=7 --coordinate_output={folder}/out", {}),
    Shipped(
        "examples.complete.top_wikipedia_sessions",
        "--sampling_threshold=1.0 --input={folder}/text --output={folder}/out",
        {"text": EDITS},
        is_quick=True,
    ),
    Shipped("examples.complete.game.user_score", inputs={"text": GAME}),
    Shipped(
        "examples.complete.game.hourly_team_score",
        "--input={folder}/text --dataset=game --project=none --start_min=2015-10-19-05-30",
        {"text": GAME},
    ),
    Shipped("examples.cookbook.coders", inputs={"text": '{"host": ["A", 1], "guest": ["B", 3]}\n'}),
    Shipped("examples.cookbook.custom_ptransform", is_one_pipeline=False),
    Shipped("examples.cookbook.group_with_coder", inputs={"text": "ann,1\nben,2\nann,4\n"}, is_quick=True),
    Shipped(
        "examples.cookbook.mergecontacts",
        "--input_email={folder}/email --input_phone={folder}/phone --input_snailmail={folder}/snailmail "
        "--output_tsv={folder}/out --output_stats={folder}/out-stats",
        {"email": "ann\ta@x\nann\ta@y\nben\tb@x\n", "phone": "ann\t1\n", "snailmail": "cid\tLane 5\n"},
    ),
    Shipped("examples.cookbook.multiple_output_pardo"),
    Shipped(
        "examples.inference.sklearn_mnist_classification",
        "--input={folder}/text --output={folder}/out --model_path={folder}/model",
        {},
        prepare=_digits,
        lacks="sklearn_examples_requirements.txt, which it names as its --requirements_file",
    ),
    Shipped("yaml.main", "--yaml_pipeline_file={folder}/pipeline.yaml", {"pipeline.yaml": YAML, "scores.csv": SCORES}),
)

_SINGLE = [(f"user0_Emu,Emu,1,{minute * 60_000},-", minute * 60) for minute in range(12)]
_HUMANS = [(f"user{minute}_Emu,Emu,10,{minute * 60_000},-", minute * 60) for minute in range(9)]
_OPTIONS: Final = "--topic=projects/none/topics/game --dataset=game --project=none --allow_unsafe_triggers"
LEADER_BOARD: Final = Shipped(
    "examples.complete.game.leader_board",
    _OPTIONS,
    {},
    messages=[*_SINGLE, ("user2_Fox,Fox,3,3600000,-", 3600), ("not a line of the game", 3700)],
)
GAME_STATS: Final = Shipped(
    "examples.complete.game.game_stats", _OPTIONS, {}, messages=[*_HUMANS, ("robot_Emu,Emu,100,540000,-", 540)]
)
STREAMING_WORDCOUNT: Final = Shipped(
    "examples.streaming_wordcount",
    "--input_topic=projects/none/topics/lines --output_topic=projects/none/topics/counts",
    {},
    messages=[("to be or", 1), ("not to be", 9), ("to", 31)],
)
