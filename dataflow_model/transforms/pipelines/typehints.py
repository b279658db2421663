"""Element types: infer them from annotations, and reject transforms that they rule out.

All checks err on the side of acceptance: a type passes if it is unknown or abstract, or if a subclass could fit. Only
what can never work is rejected.
"""

from __future__ import annotations

import collections.abc
import inspect
import types
import typing
from typing import TYPE_CHECKING, Any, Final, TypeVar, Union, get_args, get_origin

import attrs

from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.plan.columns.rows import kind_of, named_row_type
from dataflow_model.plan.functions.combine import CombineFn
from dataflow_model.plan.functions.dofn import DeadLetter, Retract, TaggedOutput, TimestampedValue
from dataflow_model.plan.functions.kernels import Reduction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

_NUMBERS: Final = (int, float, complex)
_MOST_KINDS: Final = 4
_TEXTS: Final = (
    "map the texts to numbers first; a column of a CSV file is text if one of its values is no number: list those that "
    "stand for null, as in null_values=['-'], or pass a schema and send the other rows to dead letters"
)
_ITERABLES: Final = (
    list, set, frozenset,
    collections.abc.Iterable, collections.abc.Iterator, collections.abc.Generator, collections.abc.Collection,
    collections.abc.Sequence, collections.abc.MutableSequence, collections.abc.Set,
)  # fmt: skip


def type_of_values(values: Sequence[Any], *, depth: int = 2) -> Any:
    """Return the element type that covers all values, or `Any` if they are of many kinds.

    Example:
        >>> type_of_values([("UA", 1), ("AA", 2)])
        tuple[str, int]
    """
    kinds = list(dict.fromkeys(map(type, values)))
    if not kinds or len(kinds) > _MOST_KINDS:
        return Any
    if kinds == [tuple] and depth > 0 and len(sizes := {len(value) for value in values}) == 1:
        (size,) = sizes
        columns = [type_of_values([value[index] for value in values], depth=depth - 1) for index in range(size)]
        return tuple_of(*columns) if columns else tuple
    return either([None if kind is types.NoneType else kind for kind in kinds])


def return_type(fn: Callable[..., Any]) -> Any:
    """Return the type that a function is annotated to return, a class itself, and otherwise `Any`.

    Example:
        >>> return_type(str), return_type(lambda x: x)
        (<class 'str'>, typing.Any)
    """
    if isinstance(fn, type):
        return Any if issubclass(fn, type) else fn
    return _clean(_hints(fn).get("return", Any))


def unwrapped(produced: Any) -> Any:
    """Return the element type of the main output of a function that returns elements of type `produced`.

    Example:
        >>> unwrapped(int | TaggedOutput), unwrapped(TimestampedValue[int]), unwrapped(TimestampedValue)
        (<class 'int'>, <class 'int'>, typing.Any)
        >>> unwrapped(int | Retract), unwrapped(TimestampedValue[Retract[int]])
        (<class 'int'>, <class 'int'>)
    """
    members = [_bare(member, TimestampedValue) for member in _members(produced) if member is not TaggedOutput]
    # A retraction takes back a value of one of the other types.
    values = [member for member in members if Retract not in {member, get_origin(member)}]
    return either([_bare(member, Retract) for member in values or members])


def _bare(member: Any, wrapper: type) -> Any:
    """Return the type of the value in a wrapper, and any other type as it is."""
    if member is wrapper:
        return Any
    return _clean(get_args(member)[0]) if get_origin(member) is wrapper else member


def item_type(iterable: Any) -> Any:
    """Return the type of the items of an iterable type; `Any` if that is not certain.

    Example:
        >>> from collections.abc import Iterator
        >>> item_type(Iterator[int]), item_type(list), item_type(list[str] | None)
        (<class 'int'>, typing.Any, <class 'str'>)
    """
    items: list[Any] = []
    for member in without_none(iterable):
        arguments = get_args(member)
        if get_origin(member) in _ITERABLES and arguments:
            items.append(arguments[0])
        elif get_origin(member) is tuple and arguments:
            items.extend(part for part in arguments if part is not ...)
        else:
            return Any
    return unwrapped(either(items))


def clashes(actual: Any, required: Any) -> bool:
    """Return whether no value of type `actual` can ever be a value of type `required`.

    Example:
        >>> clashes(str, int), clashes(int, float), clashes(Any, int), clashes(tuple[int, str], tuple[int, int])
        (True, False, False, True)
    """
    return all(_one_clashes(left, right) for left in _members(actual) for right in _members(required))


def may_be_pair(element_type: Any) -> bool:
    """Return whether an element of this type may be a pair `(key, value)`.

    Example:
        >>> may_be_pair(tuple[str, int]), may_be_pair(int), may_be_pair(Any)
        (True, False, True)
    """
    return any(_one_may_be_pair(member) for member in _members(element_type))


def pair_types(element_type: Any) -> tuple[Any, Any]:
    """Return the types of key and value; `Any` for an unknown one.

    Example:
        >>> pair_types(tuple[str, int])
        (<class 'str'>, <class 'int'>)
    """
    arguments = get_args(element_type)
    if get_origin(element_type) is tuple and len(arguments) == 2 and ... not in arguments:  # noqa: PLR2004 - a pair
        return arguments[0], arguments[1]
    return Any, Any


def tuple_of(*parts: Any) -> Any:
    """Return the type of tuples whose parts have these types, which are known only at run time; see `pair_types`."""
    return tuple[parts]  # type: ignore[valid-type]


def field_type(row: Any, field: str, label: str) -> Any:
    """Return the type of a field of a row type, or `Any` if it is not known.

    Args:
        row: the type of the rows.
        field: the name of the field.
        label: the transform that names the field, for the error.

    Raises:
        InvalidArgument: if the row type is known and has no such field.
    """
    if not isinstance(row, type):
        return Any
    names = getattr(row, "_fields", None) or (
        tuple(part.name for part in attrs.fields(row)) if attrs.has(row) else None
    )
    if names is None:
        return Any
    if field not in names and (hasattr(tuple, field) or not hasattr(row, field)):
        raise InvalidArgument(
            f"{label!r} names the field {field!r}, which {row.__name__} does not have",
            hint=f"its fields are {list(names)}",
        )
    return _clean(_hints(row).get(field, Any))


def combined_type(combine: CombineFn[Any, Any, Any], value_type: Any) -> Any:
    """Return the type of a combiner's output for inputs of `value_type`."""
    declared = getattr(combine, "output_type", None)
    return declared(value_type) if callable(declared) else declared_types(combine)[1]


def rows_of_types(types: Mapping[str, Any]) -> Any:
    """Return the type of rows with columns of these types, as far as they are known; each column may hold `None`.

    Example:
        >>> rows_of_types({"carrier": str, "total": int | None, "parts": list[int]}).__qualname__
        'Row(carrier: str, total: int, parts: Any)'
    """
    known = {name: without_none(kind) for name, kind in types.items()}
    return named_row_type(tuple((name, kind_of(*kinds) if len(kinds) == 1 else "Any") for name, kinds in known.items()))


def declared_types(combine: CombineFn[Any, Any, Any]) -> tuple[Any, Any]:
    """Return the types of input and output with which a combiner's class parametrizes its generic base."""
    for base in getattr(type(combine), "__orig_bases__", ()):
        origin, arguments = get_origin(base), get_args(base)
        if isinstance(origin, type) and issubclass(origin, CombineFn) and len(arguments) == 3:  # noqa: PLR2004 - its three
            return _clean(arguments[0]), _clean(arguments[2])
    return Any, Any


def check_pairs(element_type: Any, label: str) -> None:
    """Raise `InvalidType` if elements of this type are certainly no pairs."""
    if not may_be_pair(element_type):
        raise InvalidType(
            f"{label!r} takes pairs (key, value), got elements of type {type_name(element_type)}",
            hint="put dm.WithKeys(…) before it, or dm.Map(lambda x: (key, value))",
        )


def check_common_keys(element_types: Sequence[Any], label: str) -> None:
    """Raise `InvalidType` if no key of a collection can ever equal a key of the other collections in the group."""
    keys = [pair_types(element_type)[0] for element_type in element_types]
    for index, key in enumerate(keys):
        others = [*keys[:index], *keys[index + 1 :]]
        if others and all(clashes(key, other) and clashes(other, key) for other in others):
            raise InvalidType(
                f"{label!r} joins by keys, but no key of type {type_name(key)} equals one of type "
                f"{' or '.join(dict.fromkeys(map(type_name, others)))}",
                hint="convert the keys of one side: dm.Map(lambda pair: (str(pair[0]), pair[1])), for example",
            )


def check_combiner_input(combine: CombineFn[Any, Any, Any], value_type: Any, label: str) -> None:
    """Raise `InvalidType` if a combiner can certainly not take inputs of this type."""
    kernel = combine.own_kernel
    arithmetic = kernel is not None and kernel.reduction is Reduction.SUM
    unfit = arithmetic and all(_is_never_a_number(member) for member in _members(value_type))
    if unfit or clashes(value_type, declared_types(combine)[0]):
        select = "select the value with dm.WithKeys('key', value='field'), or map the values first"
        raise InvalidType(
            f"{label!r} combines by {combine!r}, which cannot take values of type {type_name(value_type)}",
            hint=_TEXTS if arithmetic and str in _members(value_type) else select,
        )


def check_first_parameter(fn: Callable[..., Any], element_type: Any, label: str) -> None:
    """Raise `InvalidType` if the first parameter's annotation rules out every element of this type."""
    if isinstance(fn, type):
        return
    try:
        first = next(iter(inspect.signature(fn).parameters.values()), None)
    except (TypeError, ValueError):  # builtins such as `int` may have no signature
        return
    if first is None or first.kind is first.VAR_POSITIONAL:
        return
    needed = _clean(_hints(fn).get(first.name, Any))
    if clashes(element_type, needed):
        name = getattr(fn, "__name__", repr(fn))
        raise InvalidType(
            f"{label!r} calls {name}({first.name}: {type_name(needed)}) on elements of type {type_name(element_type)}",
            hint="change the annotation or the elements, or correct the inferred type with .with_output_types(T)",
        )


def check_parts(
    fn: Callable[..., Any], element_type: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], label: str
) -> None:
    """Raise `InvalidType` if a function cannot be called with the parts of any element of this type.

    That is so if their number does not fit, or if the annotation of a parameter rules out its part.

    Args:
        fn: the function.
        element_type: the type of the elements.
        args: the arguments that follow the parts.
        kwargs: the arguments by name.
        label: the transform that calls it, for the error.
    """
    members = [member for member in _members(element_type) if _may_have_parts(member)]
    if not members:
        raise InvalidType(
            f"{label!r} calls its function with the parts of each element, got elements of type "
            f"{type_name(element_type)}",
            hint="use dm.Map(…) or dm.FlatMap(…), whose function takes the element as a whole",
        )
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):  # builtins such as `int` may have no signature
        return
    problems: list[TypeError] = []
    for size in map(_size, members):
        try:
            signature.bind(*[None] * (size or 0), *args, **kwargs)
        except TypeError as error:
            if size is not None:
                problems.append(error)
    if len(problems) == len(members):
        raise InvalidType(
            f"{label!r} calls {getattr(fn, '__name__', repr(fn))}{signature} with the parts of elements of type "
            f"{type_name(element_type)}: {problems[0]}",
            hint="let the function take an argument for each part, then further arguments, and metadata such as "
            "window=dm.DoFn.WindowParam last",
        ) from problems[0]
    misfits = [_misfit_of_part(fn, signature, member) for member in members]
    if all(misfits):
        raise InvalidType(
            f"{label!r} calls {getattr(fn, '__name__', repr(fn))}{signature} with the parts of elements of type "
            f"{type_name(element_type)}: {misfits[0]}",
            hint="change the annotation or the elements, or correct the inferred type with .with_output_types(T)",
        )


def _misfit_of_part(fn: Callable[..., Any], signature: inspect.Signature, member: Any) -> str:
    """Return how the annotation of a parameter rules out a part of all elements of a type; "" if none does."""
    hints = _hints(fn)
    for parameter, part in zip(signature.parameters.values(), _parts(member), strict=False):
        if parameter.kind is parameter.VAR_POSITIONAL:
            break
        needed = _clean(hints.get(parameter.name, Any))
        if clashes(part, needed):
            return f"{parameter.name} takes {type_name(needed)}, not {type_name(part)}"
    return ""


def _hints(fn: Any) -> dict[str, Any]:
    target = fn if isinstance(fn, type | types.FunctionType | types.MethodType) else getattr(type(fn), "__call__", fn)  # noqa: B004
    try:
        return typing.get_type_hints(target)
    except Exception:  # noqa: BLE001 - names that exist only for type checkers, strings that are no types: unknown
        return {}


def _clean(hint: Any) -> Any:
    """Return a hint with type variables turned into `Any`, new types and annotations unwrapped."""
    if hint is None or hint is types.NoneType:
        return None
    if isinstance(hint, typing.NewType):
        return _clean(hint.__supertype__)
    if isinstance(hint, TypeVar):
        return Any
    if get_origin(hint) is tuple and (arguments := get_args(hint)):
        return tuple[tuple(part if part is ... else _clean(part) for part in arguments)]  # type: ignore[misc]
    return hint


def _members(hint: Any) -> list[Any]:
    """Return the alternatives of a union, or the hint alone."""
    hint = _clean(hint)
    if get_origin(hint) in (Union, types.UnionType):
        return [member for part in get_args(hint) for member in _members(part)]
    if get_origin(hint) is typing.Literal:
        return list(dict.fromkeys(type(value) for value in get_args(hint)))
    return [hint]


def without_none(hint: Any) -> list[Any]:
    """Return the alternatives of a type apart from `None`.

    Example:
        >>> without_none(int | None), without_none(int | str)
        ([<class 'int'>], [<class 'int'>, <class 'str'>])
    """
    return [member for member in _members(hint) if member is not None and member is not types.NoneType]


def either(members: Iterable[Any]) -> Any:
    """Return the union of some types; `Any` if one of them is."""
    distinct = list(dict.fromkeys(members))
    if not distinct or Any in distinct:
        return Any
    try:
        return Union[tuple(distinct)] if len(distinct) > 1 else distinct[0]  # noqa: UP007 - built at run time
    except TypeError:
        return Any


def _class_of(hint: Any) -> type | None:
    """Return the class of a hint's values; `None` if the hint does not determine one."""
    if hint is None:
        return types.NoneType
    kind = get_origin(hint) or hint
    if not isinstance(kind, type) or kind in {object, Any} or getattr(kind, "_is_protocol", False):
        return None
    return kind


def _one_clashes(actual: Any, required: Any) -> bool:
    left, right = _class_of(actual), _class_of(required)
    if left is None or right is None or inspect.isabstract(left):
        return False
    if left is tuple and right is tuple:
        return _tuples_clash(get_args(actual), get_args(required))
    # `float` in a hint admits ints; a NumPy scalar is fit for what takes numbers.
    numeric = [issubclass(kind, _NUMBERS) or kind.__module__ == "numpy" for kind in (left, right)]
    if all(numeric):
        return False
    # Two classes of users might have a common subclass; nothing derives from two builtins.
    known = {left.__module__, right.__module__} & {"builtins", "datetime", "decimal"}
    try:
        return bool(known) and not issubclass(left, right) and not issubclass(right, left)
    except TypeError:
        return False


def _tuples_clash(actual: tuple[Any, ...], required: tuple[Any, ...]) -> bool:
    if not actual or not required or ... in actual or ... in required:
        return False
    return len(actual) != len(required) or any(
        clashes(left, right) for left, right in zip(actual, required, strict=True)
    )


def _may_have_parts(hint: Any) -> bool:
    """Return whether values of a type may be iterable."""
    kind = _class_of(hint)
    return kind is None or hasattr(kind, "__iter__") or not _is_plain(kind)


def _size(hint: Any) -> int | None:
    """Return the number of parts that all values of a type have, or `None` if that is not known."""
    kind, arguments = _class_of(hint), get_args(hint)
    if kind is None or not issubclass(kind, tuple):
        return None
    fields = getattr(kind, "_fields", None)
    if fields is not None:
        return len(fields)
    return None if not arguments or ... in arguments else len(arguments)


def _parts(hint: Any) -> Sequence[Any]:
    """Return the types of the parts that all values of a type have; `Any` for those of named tuples."""
    size = _size(hint)
    return () if size is None else get_args(hint) or [Any] * size


def _is_plain(kind: type) -> bool:
    """Return whether a class is one of Python's own or a record, of which subclasses rarely add protocols."""
    return (
        kind.__module__ in {"builtins", "datetime", "decimal"}
        or attrs.has(kind)
        or hasattr(kind, "__dataclass_fields__")
    )


def _one_may_be_pair(hint: Any) -> bool:
    kind = _class_of(hint)
    if kind is None:
        return True
    if kind is DeadLetter or issubclass(kind, str | bytes | list | dict | set | frozenset):
        return False
    if issubclass(kind, tuple):
        names, arguments = getattr(kind, "_fields", None), get_args(hint)
        if names is not None:
            return len(names) == 2  # noqa: PLR2004 - a pair
        return not arguments or ... in arguments or len(arguments) == 2  # noqa: PLR2004
    return not _is_plain(kind) or hasattr(kind, "__iter__")


def _is_never_a_number(hint: Any) -> bool:
    kind = _class_of(hint)
    return kind is not None and (kind is types.NoneType or issubclass(kind, tuple | list | dict | set | str | bytes))


def type_name(hint: Any) -> str:
    """Return a type as messages show it."""
    return hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint)
