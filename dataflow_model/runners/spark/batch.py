"""Placeholder until the bounded job is in."""
