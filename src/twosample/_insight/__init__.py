"""What a result means: what differs, and where; power; comparisons of many samples."""
