"""Other tools' measurements as rows: what a file holds, what it rests on, what is wrong with it."""
