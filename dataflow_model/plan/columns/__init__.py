"""Rows and columns: what elements look like to sources, sinks and type checkers.

Begin with `rows`, the type of the rows that sources of columns emit, and `typed_rows`, those of a class of the user.
`source_columns` is a range of a source as the engine reads it, with `time_units`, `replay_clock`, `natural_order` and
`inferred_columns`; `type_schemas` and `element_columns` are the columns of elements, `nested`, `foreign_times` and
`python_range` those of some of their values; `records` is what sinks receive, as columns in `record_columns`.
"""
