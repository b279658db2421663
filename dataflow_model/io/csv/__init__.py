"""CSV files as sources, and with `text_sources` text in general.

Begin with `text_sources` and `csv_options`; then `inference`, `csv_parsing`, and what Arrow alone would get wrong in
`csv_numbers` and `csv_bad_rows`.
"""
