"""Calls of users' functions, and what has to be kept from them and from their errors.

Begin with `user_code` and `lifetimes`. `ambient`, `forks`, `read_only`, `draws` and `garbage` are about what functions
may do besides; `uncombining` and `value_identity` about retracting what a combiner cannot subtract.
"""
