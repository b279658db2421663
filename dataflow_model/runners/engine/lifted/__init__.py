"""Groupings that combine before the shuffle: columns of partials in, columns of panes out.

Begin with `chunks` and `partials`; `accumulators` are those of kernels, `keys` and `sessions` group them.
"""
