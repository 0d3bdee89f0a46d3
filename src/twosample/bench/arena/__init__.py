"""The arena: tests side by side on the same rows, with their levels beside their powers."""
