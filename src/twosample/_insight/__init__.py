"""What a result means: rows and columns that differ, power, locations, comparisons of many samples."""
