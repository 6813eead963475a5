"""Times pages of rows in an indexed table of sqlite. The rows are lines of a file."""
import sqlite3
import sys
import time

rows = [line.rstrip("\n").split("\t") for line in open(sys.argv[1])]
base = sqlite3.connect(":memory:")
began = time.perf_counter()
base.execute("create table pods (namespace, name, node, created, uid)")
base.executemany("insert into pods values (?, ?, ?, ?, ?)", rows)
for column in ("name", "node", "created", "uid"):
    base.execute(f"create index by_{column} on pods ({column})")
print(f"{len(rows)} rows put into a table with 4 indexes: {time.perf_counter() - began:.2f} s")

PAGE = "select namespace, name, node from pods order by {} limit 50 offset {}"
COUNT = "select count(*) from pods"
for name, asked in (
    ("ordered by node", [PAGE.format("node, namespace, name", 0), COUNT]),
    ("ordered by age, counted by node",
     [PAGE.format("created desc, namespace, name", 0), "select node, count(*) from pods group by node"]),
    ("the last page of an order", [PAGE.format("uid", len(rows) - 100), COUNT]),
):
    times = []
    for _ in range(20):
        began = time.perf_counter()
        for query in asked:
            base.execute(query).fetchall()
        times.append((time.perf_counter() - began) * 1e3)
    print(f"{name}: {times[0]:.1f} ms first, {sorted(times[1:])[9]:.1f} ms again")
