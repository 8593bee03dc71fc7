"""The words of the house: sizes, collectives, dtypes, rows, findings, errors. Pure, imports no other room."""
