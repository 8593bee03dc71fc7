"""Foreign files to fabrics: one file per format, the registry that tells them apart, and merging."""
