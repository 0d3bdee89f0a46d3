"""What a reader of two samples would see in a minute, before any test."""
