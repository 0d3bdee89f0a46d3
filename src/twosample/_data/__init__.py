"""The door for arrays and tables: rows in memory are a stream of one part."""
