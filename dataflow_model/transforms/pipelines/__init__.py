"""Pipelines and collections, and what all transforms have in common.

Begin with `pipeline`, `pcollection` and `ptransform`; `windows` is *where*, *when* and *how* as one transform. Then
`typehints` and `code_names` (labels), `inputs` and `groupings` (what transforms with a strategy share), `output_tags`,
`options`, `composite_functions` and `looking` (`head` and `show`).
"""
