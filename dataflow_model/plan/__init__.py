"""The logical plan: nodes, windowing strategies, checks and rewrites, between transforms and runners."""
