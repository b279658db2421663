"""What: pipelines, collections and the transforms over them.

Begin with `pipelines`, then `elementwise`, `grouping`, `joining` and `endpoints`. `topologies` is MillWheel's API,
`drawing` draws either.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NoReturn

from dataflow_model.plan.names.spellings import unknown
from dataflow_model.transforms.elementwise.maps import Filter, FlatMap, FlatMapTuple, Map, MapTuple
from dataflow_model.transforms.elementwise.pairs import Keys, KvSwap, Values, WithKeys
from dataflow_model.transforms.elementwise.pardo import ParDo
from dataflow_model.transforms.elementwise.reshaping import Flatten, Partition, Reshuffle
from dataflow_model.transforms.elementwise.side_inputs import AsDict, AsIter, AsList, AsSingleton
from dataflow_model.transforms.elementwise.timestamps import WithTimestamps
from dataflow_model.transforms.elementwise.watching import LogElements, Tee
from dataflow_model.transforms.endpoints.create import Create, Read, Write
from dataflow_model.transforms.grouping.approximate import ApproximateQuantiles, ApproximateUnique
from dataflow_model.transforms.grouping.batches import BatchElements, GroupIntoBatches
from dataflow_model.transforms.grouping.by_key import CombineGlobally, CombinePerKey, GroupByKey
from dataflow_model.transforms.grouping.collectors import Distinct, ToDict, ToList, Top, ToSet
from dataflow_model.transforms.grouping.combine_values import CombineValues
from dataflow_model.transforms.grouping.combiner_forms import Combiner
from dataflow_model.transforms.grouping.combiners import Count, Max, Mean, Min, Sum
from dataflow_model.transforms.grouping.deduplicate import Deduplicate
from dataflow_model.transforms.grouping.group_by import GroupBy
from dataflow_model.transforms.grouping.latest import Latest
from dataflow_model.transforms.grouping.sampling import Sample
from dataflow_model.transforms.grouping.together import Together
from dataflow_model.transforms.joining.cogroup import CoGroupByKey
from dataflow_model.transforms.joining.joins import Join
from dataflow_model.transforms.pipelines.composite_functions import ptransform_fn
from dataflow_model.transforms.pipelines.pcollection import OutputTuple, PBegin, PCollection
from dataflow_model.transforms.pipelines.pipeline import Pipeline, set_default_runner
from dataflow_model.transforms.pipelines.ptransform import PTransform
from dataflow_model.transforms.pipelines.windows import Window, WindowInto

__all__ = [
    "ApproximateQuantiles",
    "ApproximateUnique",
    "AsDict",
    "AsIter",
    "AsList",
    "AsSingleton",
    "BatchElements",
    "CoGroupByKey",
    "CombineGlobally",
    "CombinePerKey",
    "CombineValues",
    "Combiner",
    "Count",
    "Create",
    "Deduplicate",
    "Distinct",
    "Filter",
    "FlatMap",
    "FlatMapTuple",
    "Flatten",
    "GroupBy",
    "GroupByKey",
    "GroupIntoBatches",
    "Join",
    "Keys",
    "KvSwap",
    "Latest",
    "LogElements",
    "Map",
    "MapTuple",
    "Max",
    "Mean",
    "Min",
    "OutputTuple",
    "PBegin",
    "PCollection",
    "PTransform",
    "ParDo",
    "Partition",
    "Pipeline",
    "Read",
    "Reshuffle",
    "Sample",
    "Sum",
    "Tee",
    "ToDict",
    "ToList",
    "ToSet",
    "Together",
    "Top",
    "Values",
    "Window",
    "WindowInto",
    "WithKeys",
    "WithTimestamps",
    "Write",
    "ptransform_fn",
    "set_default_runner",
]

if not TYPE_CHECKING:  # type checkers would take every name for one that exists

    def __getattr__(name: str) -> NoReturn:
        """Raise the error for a name that is missing, with our spelling of a well-known one."""
        raise unknown(__name__, name, sys.modules[__name__])
