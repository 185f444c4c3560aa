#!/usr/bin/env python3
"""Writes the SQLite files that test_sqlite.cpp reads. Run in this folder."""
import os
import sqlite3


def write(name, sql, page=512):
    if os.path.exists(name):
        os.remove(name)
    base = sqlite3.connect(name, isolation_level=None)
    base.executescript(f"PRAGMA page_size = {page};" + sql)
    base.close()


# An index over all columns, a view and a trigger: none of them may change what is read.
write("one.sqlite", '''PRAGMA journal_mode = WAL; CREATE TABLE t(n INTEGER, x REAL, "city ""s" TEXT);
    CREATE INDEX whole ON t(n, x, "city ""s");
    INSERT INTO t VALUES (9, 1.5, 'Oslo'), (1, NULL, NULL), (-5, 0.25, 'Zürich');
    CREATE VIEW v AS SELECT n FROM t; CREATE TRIGGER r AFTER INSERT ON t BEGIN DELETE FROM t; END;''', 4096)
write("two.sqlite", "CREATE TABLE b(x); CREATE TABLE a(x);")
write("blob.sqlite", "CREATE TABLE t(a, b); INSERT INTO t VALUES (1, x'00ff');")
# A column that is an expression, a name that hides the rowid, and a table whose rows are in the order of its key.
write("kinds.sqlite", '''CREATE TABLE plain(rowid TEXT, n INTEGER, twice AS (2 * n));
    INSERT INTO plain VALUES ('a', 1), ('b', 2);
    CREATE TABLE keyed(k TEXT PRIMARY KEY, n) WITHOUT ROWID; INSERT INTO keyed VALUES ('z', 26), ('c', 3), ('m', 13);
    CREATE VIRTUAL TABLE words USING fts5(w);''')
# Rowids with gaps, over more rows than are kept between two places.
write("long.sqlite", "CREATE TABLE t(x); WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 8999)"
      " INSERT INTO t(rowid, x) SELECT 3 * i - 5000, i FROM n;")
