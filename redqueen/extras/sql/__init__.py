"""The language SQL over SQLite: predict the rows, find the rows of the tables, write the query."""
