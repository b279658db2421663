"""What the program of a pipeline has: classes of `__main__`, what is registered with Beam, and packages it names.

Beam pickles classes of `__main__` by value, with an id by which a process recognises a class that it has already. This
package refers to them by name where it can. So that both mean one class in other processes, these get the program's
classes together with their ids.
"""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any, Final

from apache_beam.coders import typecoders
from apache_beam.internal.cloudpickle import cloudpickle
from apache_beam.typehints import schemas
from apache_beam.typehints.schema_registry import SCHEMA_REGISTRY

from dataflow_model.errors import InvalidType
from dataflow_model.runners.beam.functions import running
from dataflow_model.values.main_classes import MAIN, is_named
from dataflow_model.values.pickles import dump_by_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dataflow_model.runners.beam.functions.packages import Packages

_HERE: Final[set[str]] = set()
"""The runs whose registrations this process has."""


class Registered:
    """The classes of `__main__`, and the coders, schemas and logical types that a program has registered.

    A function of a pipeline holds it as its first attribute, so that it is restored before what needs it. It is empty:
    what it stands for is collected when it is pickled.

    Args:
        run: the id of the run.
    """

    def __init__(self, run: str) -> None:
        self._run = run
        _HERE.add(run)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how it is restored, with what is registered now.

        Raises:
            InvalidType: for a registered coder or type that cannot be pickled.
        """
        return _restored, (self._run, running.packages_for(self._run), *_of_run(self._run))


@functools.lru_cache(maxsize=1)
def _of_run(run: str) -> tuple[dict[str, type], bytes]:
    """Return the classes of `__main__` by Beam's ids, and what is registered."""
    del run  # what is registered does not change while a run starts
    of_main = sys.modules[MAIN]
    kinds = {kind for kind in _classes(vars(of_main)) if _can_be_pickled(kind)}
    make_id = cloudpickle.DEFAULT_CONFIG.id_generator
    by_id: dict[str, type] = {}
    for kind in sorted(kinds, key=lambda kind: kind.__qualname__):
        tracked = cloudpickle._get_or_create_tracker_id(kind, make_id)  # noqa: SLF001 - Beam has no other way
        assert tracked is not None, "an id is made where there is none"  # noqa: S101
        by_id[tracked] = kind
    return by_id, _registrations()


def _registrations() -> bytes:
    """Return what is registered with Beam, each coder behind the class that it is for."""
    try:
        coders = [
            (cloudpickle.dumps(kind), cloudpickle.dumps((kind, coder)))
            for kind, coder in typecoders.registry.get_custom_type_coder_tuples()
        ]
        types = schemas.LogicalType._known_logical_types.copy_custom(), SCHEMA_REGISTRY.get_registered_typings()  # noqa: SLF001
        blob: bytes = cloudpickle.dumps((coders, *types))
    except Exception as error:
        raise InvalidType(
            "what the program has registered with Beam cannot be sent to other processes: "
            f"{type(error).__name__}: {error}",
            hint="register coders, schemas and logical types that can be pickled",
        ) from error
    return blob


def _restored(run: str, packages: Packages, by_id: Mapping[str, type], registrations: bytes) -> Registered:
    """Register in this process what the program has registered in its own; its packages are there already.

    The coder of a class that this process cannot import, such as one that a function has made, is left out: nothing
    here can have an instance of it.
    """
    del packages
    if run not in _HERE:
        for tracked, kind in by_id.items():
            cloudpickle._lookup_class_or_track(tracked, kind)  # noqa: SLF001
        coders, logical_types, typings = cloudpickle.loads(registrations)
        known = [cloudpickle.loads(pair) for kind, pair in coders if _can_be_loaded(kind)]
        typecoders.registry.load_custom_type_coder_tuples(known)
        schemas.LogicalType._known_logical_types.load(logical_types)  # noqa: SLF001
        SCHEMA_REGISTRY.load_registered_typings(typings)
    return Registered(run)


def _can_be_loaded(kind: bytes) -> bool:
    try:
        cloudpickle.loads(kind)
    except (AttributeError, ImportError):
        return False
    return True


def _classes(scope: Mapping[str, Any]) -> Iterator[type]:
    """Yield the classes of `__main__` that can be found by name, also those in others."""
    for kind in list(scope.values()):
        if is_named(kind):
            yield kind
            yield from _classes(vars(kind))


def _can_be_pickled(kind: type) -> bool:
    """Return whether a class can be sent to other processes; one that cannot may not be needed there."""
    try:
        dump_by_value(kind)
    except Exception:  # noqa: BLE001 - what the class refers to may raise anything
        return False
    return True
