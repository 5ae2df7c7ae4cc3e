"""A table with a data frame library or a database: built, sorted, grouped and joined."""

import sys

library, rows = sys.argv[1], int(sys.argv[2])
if library == "pandas":
    import numpy
    import pandas

    at = numpy.arange(rows)
    table = pandas.DataFrame({"key": at * 7919 % rows, "group": at % 1000, "value": at / 7.0})
    table = table.sort_values("key", kind="stable")
    sums = table.groupby("group")["value"].sum()
    joined = table.merge(sums.rename("sum"), left_on="group", right_index=True)
    print(round(float(sums.iloc[17]), 3), int((joined["sum"] > joined["value"]).sum()))
elif library == "polars":
    import polars

    at = polars.int_range(rows, eager=True)
    table = polars.DataFrame({"key": at * 7919 % rows, "group": at % 1000, "value": at / 7.0})
    table = table.sort("key")
    sums = table.group_by("group").agg(polars.col("value").sum().alias("sum")).sort("group")
    joined = table.join(sums, on="group")
    print(round(sums["sum"][17], 3), (joined["sum"] > joined["value"]).sum())
else:
    import duckdb

    database = duckdb.connect()
    database.execute(
        f"CREATE TABLE t AS SELECT i * 7919 % {rows} AS k, i % 1000 AS g, i / 7.0 AS v"
        f" FROM range({rows}) r(i)"
    )
    print(database.execute("SELECT round(sum(v), 3) FROM t WHERE g = 17").fetchone())
    print(database.execute("SELECT k, v FROM t ORDER BY v DESC, k LIMIT 2").fetchall())
    query = "SELECT count(*) FROM t a JOIN t b ON a.k = b.k WHERE a.v >= b.v"
    print(database.execute(query).fetchone())
