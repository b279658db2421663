"""The transform: a value with a label, applied by `|`."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Never, Self, overload

from dataflow_model.errors import InvalidArgument, InvalidType, encodable
from dataflow_model.plan.functions.combine import CombineFn
from dataflow_model.plan.functions.typevars import ElementT, ElementT_contra, InputT_contra, OutputT_co
from dataflow_model.plan.names.spellings import with_spellings
from dataflow_model.transforms.pipelines.pcollection import PCollection

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_PREFIXES: Final = (
    ("dataflow_model.io.", "dm.io."),
    ("dataflow_model.testing.", "dm.testing."),
    ("dataflow_model.", "dm."),
)
"""The prefix with which users write the names of a module."""
MAKES_TRANSFORM: Final = "makes_transform"
"""The attribute of a function that returns a transform, so that the error for one that was not called says so."""
_FORMS: Final = {"PerKey": "per_key", "PerElement": "per_element"}
_NO_TYPES: Final = (str, bytes, int, float, list, tuple, dict, set)
_apply_to_several: list[Callable[[Any, PTransform], Any]] = []


@with_spellings
class PTransform(Generic[InputT_contra, OutputT_co]):
    """A step of a pipeline; subclass it and define `expand` to build a composite of other steps.

    `expand(pcoll)` applies further transforms to its input and returns the result: a collection, a tuple or dict of
    them, or `None` if there is no output. The labels inside are nested: `Outer/Inner`. A transform is a value that can
    be applied many times; applying it does not change it.

    Type checkers read the input and output types of a transform from the annotations of `expand`, which may contain
    type variables. A class without `expand` can declare them as `PTransform[PCollection[str], PCollection[int]]`.

    Source: Beam's `PTransform`.

    Example:
        >>> import dataflow_model as dm
        >>> class CountWords(dm.PTransform):
        ...     def expand(self, lines):
        ...         return lines | dm.FlatMap(str.split) | dm.Count.per_element()
        >>> p = dm.Pipeline()
        >>> counts = p | dm.Create(["to be or", "not to be"]) | CountWords()
        >>> [node.label for node in p.plan().nodes][:2]
        ['Create', 'CountWords/FlatMap']
    """

    # Class attributes, so that subclasses need not call `super().__init__()`.
    _label: str | None = None
    _output_type: Any = None
    input_kind: ClassVar[str] = "any"
    """What `expand` takes: `"pipeline"`, `"collection"`, `"collections"` (a tuple or dict of them) or `"any"`."""

    @property
    def label(self) -> str:
        """The label given by `"label" >> transform`, else the transform's own name."""
        return self._label if self._label is not None else self.default_label()

    def default_label(self) -> str:
        """Return the name to use if no label is given."""
        return type(self).__name__

    def label_by_code(self) -> str | None:
        """Return the label for a second use in one scope without a label: the name, and the user's code in brackets.

        It depends only on the code of that function, not on its position in the file. It is `None` if the transform
        contains no user code that distinguishes its uses; such a transform needs a label.

        Example:
            >>> import dataflow_model as dm
            >>> dm.Map(lambda x: 2 * x).label_by_code(), dm.Create([1]).label_by_code()
            ('Map(lambda x: 2 * x)', None)
        """
        return None

    def with_another_label(self) -> str:
        """Return how this transform is written with another label, for the hint to give it one."""
        return f'"another name" >> {written(self)}'

    def expand(self, pcoll: InputT_contra, /) -> OutputT_co:
        """Apply the parts of this transform to `pcoll` and return the output."""
        del pcoll
        raise NotImplementedError(f"{type(self).__name__} must define `expand(self, pcoll)`")

    @overload
    def with_output_types(self, element_type: type[ElementT]) -> PTransform[InputT_contra, PCollection[ElementT]]: ...

    @overload
    def with_output_types(self, element_type: Any) -> PTransform[InputT_contra, PCollection]: ...

    def with_output_types(self, element_type: Any) -> Any:
        """Return this transform with a declared element type of its output, for outputs whose type cannot be inferred.

        Raises:
            InvalidType: for something that is no type.

        Example:
            >>> import dataflow_model as dm
            >>> p = dm.Pipeline()
            >>> (p | dm.Create(["1"]) | dm.Map(lambda x: int(x)).with_output_types(int)).element_type
            <class 'int'>
        """
        if isinstance(element_type, _NO_TYPES):
            raise InvalidType(
                f"an element type must be a type, got {element_type!r}",
                hint="write with_output_types(int) or with_output_types(tuple[str, int]), for example",
            )
        return self._but(_output_type=element_type)

    def _but(self, **changes: Any) -> Self:
        # A user's transform may be frozen and have slots: no plain assignment then, and a copy has only its fields.
        changed = copy.copy(self)
        for name, value in {**getattr(self, "__dict__", {}), **changes}.items():
            object.__setattr__(changed, name, value)
        return changed

    def __rrshift__(self, label: object) -> Self:
        if not isinstance(label, str):
            raise InvalidType(f"a label must be text, got {label!r}", hint=f"write 'name' >> {written(self)}")
        if not label.strip():
            raise InvalidArgument(f"a label must not be empty, got {label!r}", hint=f"write 'name' >> {written(self)}")
        if encodable(label) != label:
            raise InvalidArgument(
                f"a label must be text that UTF-8 can encode, got {label!r}",
                hint="name.encode('utf-8', 'backslashreplace').decode() escapes what cannot be encoded",
            )
        return self._but(_label=label)

    def __ror__(self, several: Sequence[PCollection] | Mapping[Any, PCollection], /) -> Any:
        return _apply_to_several[0](several, self)

    if not TYPE_CHECKING:  # for a type checker, each of these is an error

        def __or__(self, other: object) -> Any:
            raise InvalidType(
                f"`|` applies a transform to a collection, got {self!r} on its left",
                hint="begin with the collection, collection | first | second; to make one transform of several, write "
                "a subclass of dm.PTransform, or a function with @dm.ptransform_fn",
            )

        def __rshift__(self, label: object) -> Any:
            raise InvalidType(
                f"a label stands on the left of its transform, got {label!r} on the right",
                hint=f"write {label if isinstance(label, str) else 'label'!r} >> {written(self)}",
            )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.label!r}>"


class KeepsElements(PTransform[PCollection[Never], PCollection], Generic[ElementT_contra]):
    """A transform such as `Filter` that passes elements on unchanged, and whose function takes `ElementT_contra`.

    For type checkers, the result has the type of the input collection, even if the type of the function's parameter is
    unknown, as for a lambda. An overload of `PCollection.__or__` declares this; `expand` is annotated so that no
    collection matches it and nothing else is inferred.
    """


def written(transform: PTransform) -> str:
    """Return the code that creates a transform, in short, as hints show it.

    Example:
        >>> import dataflow_model as dm
        >>> written(dm.Sum.per_key()), written(dm.io.Collect())
        ('dm.Sum.per_key(…)', 'dm.io.Collect(…)')
    """
    name, _, form = transform.default_label().partition(".")
    owner = getattr(transform, "fn", None) if form else transform  # the combiner of a form of its own
    module = type(owner if isinstance(owner, CombineFn) else transform).__module__
    prefix = next((short for long, short in _PREFIXES if f"{module}.".startswith(long)), "")
    return f"{prefix}{name}{'.' if form else ''}{_FORMS.get(form, form).lower()}(…)"
