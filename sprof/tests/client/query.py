"""Runs statements of SQL from stdin (a JSON list) in a database, and prints the rows of the last one: a JSON list of texts a line.

query.py duckdb|clickhouse
"""

import json
import sys


def duckdb_rows(statements):
    import duckdb

    connection = duckdb.connect()
    for statement in statements[:-1]:
        connection.execute(statement)
    # Its times are objects of a package that is not installed.
    rows = connection.execute(f"SELECT CAST(COLUMNS(*) AS VARCHAR) FROM ({statements[-1]})").fetchall()
    for row in rows:
        print(json.dumps(row))


def clickhouse_rows(statements):
    from chdb import session

    database = session.Session()
    for statement in statements[:-1]:
        database.query(statement)
    print(database.query(statements[-1], "JSONCompactStringsEachRow"), end="")


{"duckdb": duckdb_rows, "clickhouse": clickhouse_rows}[sys.argv[1]](json.load(sys.stdin))
