"""The comparisons, by name."""

from __future__ import annotations

from typing import Any, Final

from benchmarks.beam_runs import FN_API, PRISM
from benchmarks.harness import Benchmark

__all__ = ["BENCHMARKS", "ROWS"]

ROWS: Final = 4_000_000


def _local(
    name: str, what: str, ours: str, theirs: str, target: float, *, keys: int = 1_000, scale: float = 0.25, **more: Any
) -> Benchmark:
    """Return a comparison in process: on one file of a quarter of the rows."""
    what = f"in process: {what}"
    return Benchmark(
        name, what, ours, theirs, target, local=True, keys=keys, scale=scale, files=1, parquet=True, **more
    )


def _local_memory(name: str, what: str, ours: str, theirs: str) -> Benchmark:
    """Return a comparison of peak memory in process, of many rows with fewer rows in the same cells."""
    return _local(name, f"peak memory, {what}", ours, theirs, 1.3, scale=1, memory=True)


def _beam(program: str, what: str, target: float, *, scale: float = 0.025, **more: Any) -> Benchmark:
    """Return a comparison of our runner for Beam's programs with Beam's own runners."""
    peers = more.pop("peers", (FN_API, PRISM))
    name = f"beam_{program}"
    what = f"Beam's program on our LocalRunner and on Beam's: {what}"
    return Benchmark(
        name, what, program, program, target, local=True, scale=scale, files=1, needs="apache_beam", peers=peers, **more
    )


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
            "spark_vectorized",
            "batch: a function on columns, the same one element at a time",
            "batch_vectorized",
            "batch_one_by_one",
            0.2,
            parquet=True,
        ),
        Benchmark(
            "streaming_vectorized",
            "streaming: a function on columns, the same one element at a time",
            "streaming_vectorized",
            "streaming_one_by_one",
            0.2,
            parquet=True,
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
        Benchmark(
            "streaming_triggered",
            "streaming: sum with early and late panes, aggregation",
            "streaming_triggered",
            "streaming_sums",
            0.6,
            keys=1_000,
            arrivals=True,
            least_share=0.15,
        ),
        Benchmark(
            "streaming_triggered_many_keys",
            "the same with 20,000 keys",
            "streaming_triggered",
            "streaming_sums",
            0.6,
            arrivals=True,
        ),
        Benchmark(
            "streaming_retracting",
            "streaming: panes that are taken back, and a second sum behind them; aggregation",
            "streaming_retracting",
            "streaming_sums_of_groups",
            1.2,
            keys=1_000,
            arrivals=True,
        ),
        Benchmark(
            "streaming_retracting_many_keys",
            "the same with 20,000 keys; two aggregations in a row",
            "streaming_retracting",
            "streaming_sums_of_sums",
            1.2,
            arrivals=True,
        ),
        Benchmark(
            "streaming_join",
            "streaming: orders joined with payments within 15 minutes, stream-stream join",
            "streaming_join",
            "streaming_join",
            0.5,
            scale=0.25,
            parquet=True,
        ),
        # A thousand rows in one micro-batch: what is measured is the start.
        Benchmark(
            "streaming_start",
            "streaming: run() to the end of the first micro-batch, transformWithStateInPandas",
            "streaming_sums",
            "per_key_processor",
            1.2,
            scale=0.00025,
            files=1,
        ),
        Benchmark(
            "batch_triggered",
            "batch: sum with early panes, groupBy(window, key)",
            "batch_triggered",
            "batch_sums",
            1.2,
            keys=1_000,
        ),
        Benchmark(
            "batch_triggered_many_keys",
            "the same with 20,000 keys",
            "batch_triggered",
            "batch_sums",
            1.2,
        ),
        Benchmark(
            "batch_hot_keys",
            "batch: a combiner in Python, nine rows of ten on one key in 16 parts; all keys alike, not in parts",
            "batch_hot_key",
            "batch_like_keys",
            1.3,
            keys=1_000,
            hot=True,
        ),
        Benchmark(
            "batch_known_hot_key",
            "the same, only the hot key in 16 parts; all keys alike, not in parts",
            "batch_known_hot_key",
            "batch_like_keys",
            1.3,
            keys=1_000,
            hot=True,
        ),
        _local("local_map", "three functions in a row, a comprehension", "maps", "comprehension", 2, keys=20_000),
        _local(
            "local_vectorized",
            "a function on columns, the same one element at a time",
            "vectorized",
            "one_by_one",
            0.2,
            keys=20_000,
        ),
        _local(
            "local_triggered",
            "sum with early and late panes, a dict loop",
            "triggered",
            "sums",
            1.5,
            arrivals=True,
            least_share=0.15,
        ),
        _local(
            "local_triggered_many_keys",
            "the same with 20,000 keys",
            "triggered",
            "sums",
            1.5,
            arrivals=True,
            keys=20_000,
        ),
        _local("local_on_time", "sum with the default trigger, Polars", "on_time", "polars_sums", 5, needs="polars"),
        _local(
            "local_join",
            "orders joined with payments within 15 minutes, Polars",
            "interval_join",
            "polars_join",
            60,
            needs="polars",
        ),
        _local(
            "local_csv",
            "the same over the rows of batch_sum in a file of CSV, Polars' scan_csv",
            "csv_sums",
            "polars_csv_sums",
            3,
            keys=20_000,
            scale=1,
            needs="polars",
        ),
        _local(
            "local_json",
            "the same in a file of JSON lines, Polars' scan_ndjson",
            "json_sums",
            "polars_json_sums",
            5,
            keys=20_000,
            scale=1,
            needs="polars",
        ),
        _local(
            "local_upserts",
            "upserts of all rows into SQLite, executemany of the same rows",
            "upserts",
            "executemany",
            2,
            keys=20_000,
            scale=0.1,
        ),
        _local(
            "local_hot_keys",
            "sum with the default trigger, nine rows of ten on one key; all keys alike",
            "hot_key",
            "like_keys",
            1.3,
            hot=True,
        ),
        _local(
            "local_python",
            "a combiner in Python behind two functions, early and late panes, a dict loop",
            "python",
            "combines",
            4,
            arrivals=True,
            least_share=0.15,
        ),
        _local(
            "local_workers",
            "the pipeline of local_python with two workers, the same with one",
            "python_with_workers",
            "python",
            0.67,
            arrivals=True,
            least_share=0.15,
        ),
        _local("local_group_by_key", "GroupByKey, a dict of lists", "group_by_key", "lists", 3),
        _local(
            "local_sessions",
            "sum per session, panes that are taken back, a loop over sessions",
            "sessions",
            "session_sums",
            5,
            arrivals=True,
            keys=20_000,
        ),
        _local("local_stateful", "a stateful DoFn with a timer, a dict loop", "stateful", "counts", 10),
        _local(
            "local_user_trigger",
            "a user's trigger in the tree, a dict loop",
            "user_trigger",
            "sums",
            20,
            arrivals=True,
            least_share=0.15,
        ),
        _local_memory(
            "local_memory", "all rows ten times in the same cells; once", "greatest_of_ten_times", "greatest"
        ),
        _local_memory(
            "local_memory_csv",
            "a gigabyte of CSV; a seventh of it",
            "greatest_of_csv_seven_times",
            "greatest_of_csv",
        ),
        # A tenth of the rows: the alternative is that slow.
        _local(
            "beam",
            "sum with early and late panes, Beam's DirectRunner",
            "triggered",
            "beam_triggered",
            0.03,
            arrivals=True,
            least_share=0.15,
            scale=0.025,
            needs="apache_beam",
        ),
        _local(
            "local_words",
            "a million words counted, Beam's FnApiRunner",
            "words",
            "beam_words",
            1.0,
            scale=0.025,
            needs="apache_beam",
        ),
        _local(
            "local_words_memory",
            "peak memory, the same",
            "words",
            "beam_words",
            1.0,
            scale=0.025,
            needs="apache_beam",
            memory=True,
        ),
        _beam("wordcount", "a million words", 1.1),
        _beam("q0", "Nexmark 0, encoded and decoded", 1.15),
        _beam("q1", "Nexmark 1, a function", 1.15),
        _beam("q2", "Nexmark 2, a filter", 1.15),
        _beam("q3", "Nexmark 3, a join with state and a timer", 0.4, peers=(PRISM,)),  # FnApiRunner gives no pair
        _beam("q5", "Nexmark 5, counts in sliding windows", 0.6),
        _beam("q7", "Nexmark 7, the greatest of each window as a side input", 0.75),
        _beam("q8", "Nexmark 8, a join in windows", 0.85),
        _beam("windowed_sum", "sums per key and window", 0.4, scale=0.25),
        _beam("early_and_late", "sums with early and late panes", 0.2, scale=0.0125, peers=(FN_API,)),
        _beam("sessions", "sums per key and session", 0.65, scale=0.05),
        _beam("state", "a function with state and a timer", 0.15, scale=0.005),
    )
}
