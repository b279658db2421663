"""The types of the functions that `Map` and its like take, for type checkers alone.

`words | Map(lambda word: (word, 1))` has a lambda, whose parameter mypy infers from the collection and Pyright cannot,
since it reads what stands right of `|` by itself. The aliases give such a parameter the type `Any`, and take the types
of every other function from its annotations.

mypy infers a lambda from a union only if one callable is in it, and Pyright takes the first that fits. So each has an
alias of its own; both accept the same functions. `docs/types.md` says what each of them infers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__: list[str] = []

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from typing_extensions import TypeAliasType

    from dataflow_model.plan.functions.typevars import InputT, OutputT

    class Unknown:
        """What a function returns if nothing is known of it, as of a lambda; nothing else is one."""

    MYPY = False
    """mypy, and no other checker, takes this for true."""

    if MYPY:
        Function = Callable[[InputT | Any], OutputT]  # pyright: ignore[reportGeneralTypeIssues] # mypy's own
        LongerFunction = (
            Callable[[InputT, Any], OutputT]  # pyright: ignore[reportGeneralTypeIssues] # mypy's own
            | Callable[[InputT, Any, Any], OutputT]  # pyright: ignore[reportGeneralTypeIssues]
            | Callable[[InputT, Any, Any, Any], OutputT]  # pyright: ignore[reportGeneralTypeIssues]
        )
    else:
        Function = TypeAliasType(
            "Function", Callable[[Any], OutputT] | Callable[[InputT], OutputT], type_params=(InputT, OutputT)
        )
        LongerFunction = TypeAliasType(
            "LongerFunction",
            Callable[[Any, Any], OutputT]
            | Callable[[Any, Any, Any], OutputT]
            | Callable[[Any, Any, Any, Any], OutputT]
            | Callable[[InputT, Any], OutputT]
            | Callable[[InputT, Any, Any], OutputT]
            | Callable[[InputT, Any, Any, Any], OutputT],
            type_params=(InputT, OutputT),
        )
    SpreadFunction = (
        Callable[[Any, Any], OutputT]
        | Callable[[Any, Any, Any], OutputT]
        | Callable[[Any, Any, Any, Any], OutputT]
        | Callable[..., OutputT]
    )
    """Called with the parts of a tuple."""
