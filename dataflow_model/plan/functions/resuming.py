"""Functions of the engine's own that learn how a run goes on, as those of another SDK's pipelines need it."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING

from dataflow_model.plan.functions.dofn import DoFn

if TYPE_CHECKING:
    from collections.abc import Callable


class AwaitsCommit(abc.ABC):
    """A function of a stream that has something to do once what it has put out is committed and published.

    A process that is killed before never does it.
    """

    @abc.abstractmethod
    def take_uncommitted(self) -> Callable[[], None] | None:
        """Return what is to be called once all that it has put out so far is committed, and forget it; may be `None`.

        It is called in the process that runs the function: in process when the micro-batch is published, and on Spark
        when the process runs the shard again and finds its own attempt in the durable state.
        """


class ResumingFn(DoFn):
    """A stateful function that goes on with its work whenever one of its timers in processing time fires.

    Its state is not cleared when a window ends, and no element is dropped as late. As long as a timer is set, the run
    goes on, also after the end of the input, and the output watermark stays behind the end of the global window, and at
    the output timestamps of the timers. A timer fires at most once per instant; one that is set meanwhile is due at a
    later instant. Timers in event time never fire.
    """

    def drain(self) -> None:
        """Learn that the run is being drained, so that the work that is left should end; may be called repeatedly.

        All timers then fire at once, whenever they are due.
        """
