"""What each micro-batch reads: offsets, followed files, pacing, and scripts."""
