"""The watermark of a source: the estimators that users choose, and the parts of a source that have one each.

Begin with `estimators`; then `origins`, and `oldest_file` for one of them.
"""
