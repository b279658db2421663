"""Sinks that write files, and those that hand rows to the program.

Begin with `file_sinks`, then `file_writer` (a task's part), `publishing` (the commit) and `earlier_output`. The formats
are `csv_files`, `json_lines` and `text_files`. `element_rows` and `sink_columns` make rows of elements; `bundles` are
the sinks that write no files.
"""
