"""Parquet files as a source: begin with `parquet_source`; their types may differ between files."""
