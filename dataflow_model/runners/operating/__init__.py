"""Work on the checkpoint of a run from outside: look into it, ask it for something, carry its state over.

Begin with `inspecting` and `requesting`, then `upgrading`.
"""
