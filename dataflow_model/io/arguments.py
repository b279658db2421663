"""A check of the keyword arguments of readers, whose error names the one that was probably meant."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final

from dataflow_model.arguments import EXTRA, calls_explained, way_out
from dataflow_model.errors import InvalidType
from dataflow_model.plan.watermarks.origins import WatermarkOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dataflow_model.arguments import FunctionT

_EVENT_TIME: Final = (
    "name the column with the event times, as in event_time='time'; dm.ARRIVAL takes the time of arrival, "
    "and None reads rows without event times"
)
_IF_EXISTS: Final = (
    "write if_exists='replace' to replace the output of earlier runs, or if_exists='add' to add files to it"
)


def check_arguments(reader: type, options: Mapping[str, Any]) -> None:
    """Reject options that a reader does not have.

    Raises:
        InvalidType: for another one; the hint names the argument that was probably meant.
    """
    for name in options:
        if name not in WatermarkOptions.__annotations__:
            raise InvalidType(f"{reader.__name__} has no argument {name!r}", hint=way_out(name, _arguments_of(reader)))


def _arguments_of(reader: type) -> list[str]:
    named = [
        name
        for kind in reader.__mro__
        if "__init__" in vars(kind) and kind.__module__ == reader.__module__
        for name, parameter in inspect.signature(vars(kind)["__init__"]).parameters.items()
        if name != "self" and parameter.kind is not parameter.VAR_KEYWORD
    ]
    return [*dict.fromkeys([*named, *WatermarkOptions.__annotations__])]


_NEVER: Final = "leave it out"
_BEAMS: Final = {
    "ReadText": {
        "coder": "use encoding='latin-1', for example; elements are text",
        "compression_type": "leave it out: the ending of a file's name tells",
        "strip_trailing_newlines": "leave it out: lines have no line breaks",
        "validate": _NEVER,
        "min_bundle_size": _NEVER,
    },
    "WriteText": {
        "footer": "leave it out: only a header is written to each file",
        "shard_name_template": "leave it out: names begin with part-; num_shards=1 writes one file",
        "append_trailing_newlines": "leave it out: each element is a line",
        "coder": "leave it out: elements are text, written as UTF-8",
    },
}
"""The hints for Beam's arguments, by the transform."""


def with_label_hints(*, takes_path: bool = True) -> Callable[[FunctionT], FunctionT]:
    """Return a decorator of a transform: its error for a label given as an argument says where labels stand.

    Args:
        takes_path: whether its first argument is the path, after which no other is taken by position.
    """

    def decorate(kind: Any) -> Any:
        written = f"dm.io.{kind.__name__}({'…' if takes_path else ''})"
        label = f"write {{value}} >> {written}"
        hints = {"label": label, "name": label, "event_time": _EVENT_TIME, **_BEAMS.get(kind.__name__, {})}
        if takes_path and "if_exists" in inspect.signature(kind.__init__).parameters:
            hints |= dict.fromkeys(("mode", "overwrite", "append", "save_mode"), _IF_EXISTS)
        if not takes_path:
            hints[EXTRA] = label
        return calls_explained(hints)(kind)

    return decorate
