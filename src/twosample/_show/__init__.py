"""What there is to see: charts, and the pages that hold them."""
