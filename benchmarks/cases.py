"""The comparisons, by name."""

from __future__ import annotations

from typing import Final

from benchmarks.harness import Benchmark

__all__ = ["BENCHMARKS", "ROWS"]

ROWS: Final = 4_000_000


BENCHMARKS: Final = {
    benchmark.name: benchmark
    for benchmark in (
        Benchmark("batch_sum", "batch: sum per key and window, groupBy(window, key)", "batch_sums", "batch_sums", 1.2),
        Benchmark(
            "batch_sum_strings",
            "batch: the same with string keys and a Parquet sink",
            "batch_sums",
            "batch_sums",
            1.2,
            string_keys=True,
            parquet=True,
        ),
        Benchmark(
            "batch_sessions", "batch: sum per key and session, session_window", "batch_sessions", "batch_sessions", 1.2
        ),
        Benchmark(
            "batch_map",
            "batch: a Python lambda with a Parquet sink, mapInArrow",
            "batch_map",
            "map_in_arrow",
            1.4,
            parquet=True,
            function=lambda pair: (pair[0], pair[1] * 2 + 1),
        ),
        Benchmark(
            "streaming_sum", "streaming: sum per key and window, aggregation", "streaming_sums", "streaming_sums", 0.8
        ),
        Benchmark(
            "streaming_sum_strings",
            "streaming: the same with string keys and a Parquet sink",
            "streaming_sums",
            "streaming_sums",
            0.8,
            string_keys=True,
            parquet=True,
        ),
        Benchmark(
            "streaming_sum_4_cores", "streaming: the same at local[4]", "streaming_sums", "streaming_sums", 0.8, cores=4
        ),
        # A tenth of the rows, in two micro-batches: the alternative is that slow, and must meet its own state again.
        Benchmark(
            "streaming_per_key",
            "streaming: the same, transformWithStateInPandas per key",
            "streaming_sums",
            "per_key_processor",
            0.1,
            scale=0.1,
            files=2,
        ),
        Benchmark(
            "streaming_memory",
            "streaming: peak memory of driver and workers",
            "streaming_sums",
            "streaming_sums",
            1.5,
            memory=True,
        ),
    )
}
