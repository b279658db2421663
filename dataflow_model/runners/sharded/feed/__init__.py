"""What each micro-batch reads: offsets, followed files and pacing.

Begin with `offsets` and `pacing`.
"""
