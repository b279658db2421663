"""What each micro-batch reads: offsets, followed files, pacing, and scripts.

Begin with `offsets` and `pacing`.
"""
