"""What CSV files, lines of JSON and text have in common.

Begin with `row_texts`, which finds the rows in a range of a file, and `unpacking`, which reads from any position; then
`parsing` and `lines_of_rows`, the base of their sources.
"""
