"""What is wrong with a fabric: one kind of finding per file, each a pure function of the fabric."""
