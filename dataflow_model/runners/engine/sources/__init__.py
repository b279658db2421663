"""What is read, and what follows from it: observations, watermarks, and the timeline of a chunk.

Begin with `observing` and `estimation`, then `timeline`. `in_program` are the elements of `Create` and scripts.
"""
