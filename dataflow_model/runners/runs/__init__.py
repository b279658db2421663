"""What the runs of all hosts have in common: their background thread, report, progress and log.

Begin with `background`, then `bounded`, for runs that commit once; `options` are the options of runners, and
`run_folder` their temporary folders.
"""
