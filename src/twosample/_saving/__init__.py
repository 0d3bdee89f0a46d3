"""Fitted tests in files."""
