"""The pipeline that `dataflow-model run` runs: a function, or a pipeline, in a module of the user's."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from typing import TYPE_CHECKING, Any, Final

from dataflow_model.cli.answer import WrongUsage, import_from_here
from dataflow_model.transforms.pipelines.pipeline import Pipeline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataflow_model.plan.logical.runner import Runner

_FORM: Final = "flights:delays for the function `delays` in flights.py"
_WITH_OPTIONS: Final = 2
"""The number of parameters of a function that takes options."""


def find(target: str) -> Any:
    """Return the function or pipeline that a target names.

    Args:
        target: the name of a module and of what is in it, such as `flights:delays`. Modules in the current directory
            are found too.

    Raises:
        WrongUsage: for another form, a module that does not exist, or a name that is not in it. Errors that the
            module raises while it is imported are raised as they are.

    Example:
        >>> find("dataflow_model.demo:flights").__name__
        'flights'
        >>> find("dataflow_model.demo")
        Traceback (most recent call last):
        ...
        dataflow_model.cli.answer.WrongUsage: the pipeline must be MODULE:NAME, got 'dataflow_model.demo'
        Hint: write flights:delays for the function `delays` in flights.py, for example
    """
    name, sign, path = target.partition(":")
    if not (name and sign and path):
        raise WrongUsage(f"the pipeline must be MODULE:NAME, got {target!r}", hint=f"write {_FORM}, for example")
    import_from_here()
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):  # one that the module itself needs
            raise
        raise WrongUsage(
            f"there is no module {error.name!r} here or in this Python environment, got {target!r}",
            hint=f"run the command in the directory of the module, and write {_FORM}",
        ) from error
    value: Any = module
    for part in path.split("."):
        if not hasattr(value, part):
            public = [name for name, member in vars(module).items() if _is_program(member, module.__name__)]
            raise WrongUsage(
                f"the module {name!r} has no {path!r}",
                hint=f"it defines {', '.join(map(repr, public)) or 'no function'}",
            )
        value = getattr(value, part)
    return value


def _is_program(value: Any, module: str) -> bool:
    return isinstance(value, Pipeline) or (inspect.isfunction(value) and value.__module__ == module)


def check_options(program: Any, options: Sequence[str]) -> None:
    """Check that a program can be run with the options after `--`.

    Args:
        program: what `find` has found: a function that takes a pipeline, and if it has a second parameter, the options
            as a list of texts; or a pipeline without a runner.
        options: the options.

    Raises:
        WrongUsage: for something else, or for options of something that takes none.

    Example:
        >>> check_options(lambda p: None, ["--input", "data/"])
        Traceback (most recent call last):
        ...
        dataflow_model.cli.answer.WrongUsage: <lambda> takes only the pipeline, got the options '--input data/'
        Hint: name a function with a second parameter, def delays(p, options), which gets them as a list of texts
    """
    if isinstance(program, Pipeline):
        if program.runner is not None:
            raise WrongUsage(
                f"the pipeline has a runner of its own, got {program!r}",
                hint="leave out runner= in the module: the options of the command select the runner",
            )
        what = "the pipeline takes no options"
    elif callable(program) and not isinstance(program, type):
        what = f"{program.__qualname__} takes only the pipeline"
    else:
        raise WrongUsage(
            f"what is run must be a function of a pipeline, or a pipeline, got {program!r}",
            hint="define def delays(p): p | …, and name it: flights:delays",
        )
    if options and not _takes_options(program):
        raise WrongUsage(
            f"{what}, got the options {' '.join(options)!r}",
            hint="name a function with a second parameter, def delays(p, options), which gets them as a list of texts",
        )


def pipeline_of(program: Any, runner: Runner, options: Sequence[str]) -> Pipeline:
    """Return the pipeline that a program builds, with its runner; see `check_options`.

    Example:
        >>> import dataflow_model as dm
        >>> p = pipeline_of(lambda p: p | dm.Create([1]), dm.LocalRunner(), [])
        >>> [node.label for node in p.plan().nodes]
        ['Create']
    """
    if isinstance(program, Pipeline):
        program.runner = runner
        return program
    pipeline = Pipeline(runner=runner)
    program(pipeline, *([list(options)] if _takes_options(program) else []))
    return pipeline


def _takes_options(program: Any) -> bool:
    """Return whether a program takes two arguments by position."""
    if isinstance(program, Pipeline):
        return False
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(program).parameters.values()
    return sum(parameter.kind in kinds for parameter in parameters) >= _WITH_OPTIONS
