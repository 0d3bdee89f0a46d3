"""The door for files. Neither the maths nor `_data` imports it."""
