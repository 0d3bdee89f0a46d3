"""Statistics: one number for one labelling of the pooled points."""
