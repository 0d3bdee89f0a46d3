"""The names of the paper's ablation, which the bench lists without importing torch."""

ABLATIONS = ("S+C", "L+C", "G+C", "D+C", "L+M", "G+M", "D+M", "L+J", "G+J", "D+J")
"""The columns of the table: a kernel and its objective. Decisions have no gradient, so no S+J."""
