"""The language SQL over SQLite: predict the rows, find the rows of the tables, write the query."""

from redqueen.kinds.sql.language import SQL
from redqueen.kinds.sql.modes import SqlAbduction, SqlDeduction, SqlInduction

__all__ = ["KINDS", "SQL"]

KINDS = (SqlDeduction("sql_o", SQL), SqlAbduction("sql_i", SQL), SqlInduction("sql_f", SQL))
