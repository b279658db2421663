"""What each micro-batch reads: offsets, followed files, pace, scripts."""
