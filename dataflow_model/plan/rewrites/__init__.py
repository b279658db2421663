"""Plans that give the same answer in another way.

`lifting` combines before the shuffle, `rounds` retracts as the papers' micro-batch engine does, `early_end` reads no
more than is needed, `sampling` computes one collection for `head`, and `own_objects` gives each transform its own
copies of users' objects. `explain` says a plan in words.
"""
