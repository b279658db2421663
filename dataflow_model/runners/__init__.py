"""The runners, which run plans: one engine, and the hosts that feed it."""
