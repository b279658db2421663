"""The logical plan: nodes, strategies, and what both sides of it need."""
