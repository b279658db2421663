"""Graphs to draw: their `boxes`, also as Mermaid text, the `svg` of them, and those of `pipelines`."""
