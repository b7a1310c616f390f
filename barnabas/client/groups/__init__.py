"""Administration of consumer groups: descriptions, committed offsets, reports, and diagnosis."""
