"""What: pipelines, collections and the transforms over them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NoReturn

from dataflow_model.plan.spellings import unknown
from dataflow_model.transforms.approximate import ApproximateQuantiles, ApproximateUnique
from dataflow_model.transforms.batches import BatchElements, GroupIntoBatches
from dataflow_model.transforms.cogroup import CoGroupByKey
from dataflow_model.transforms.collectors import Distinct, ToDict, ToList, Top, ToSet
from dataflow_model.transforms.combine_values import CombineValues
from dataflow_model.transforms.combiner_forms import Combiner
from dataflow_model.transforms.combiners import Count, Max, Mean, Min, Sum
from dataflow_model.transforms.composite_functions import ptransform_fn
from dataflow_model.transforms.deduplicate import Deduplicate
from dataflow_model.transforms.elementwise import Filter, FlatMap, FlatMapTuple, Map, MapTuple
from dataflow_model.transforms.endpoints import Create, Read, Write
from dataflow_model.transforms.group_by import GroupBy
from dataflow_model.transforms.grouping import CombineGlobally, CombinePerKey, GroupByKey
from dataflow_model.transforms.joins import Join
from dataflow_model.transforms.latest import Latest
from dataflow_model.transforms.pairs import Keys, KvSwap, Values, WithKeys
from dataflow_model.transforms.pardo import ParDo
from dataflow_model.transforms.pcollection import OutputTuple, PBegin, PCollection
from dataflow_model.transforms.pipeline import Pipeline, set_default_runner
from dataflow_model.transforms.ptransform import PTransform
from dataflow_model.transforms.reshaping import Flatten, Partition, Reshuffle
from dataflow_model.transforms.sampling import Sample
from dataflow_model.transforms.side_inputs import AsDict, AsIter, AsList, AsSingleton
from dataflow_model.transforms.timestamps import WithTimestamps
from dataflow_model.transforms.together import Together
from dataflow_model.transforms.watching import LogElements, Tee
from dataflow_model.transforms.windows import Window, WindowInto

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
