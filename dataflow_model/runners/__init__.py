"""What makes a plan run: one engine, and the runners that feed it."""
