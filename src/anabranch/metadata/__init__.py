"""Small records that decide: compare-and-set, watches, sessions, election.

Read store.py first: it is the contract. tree.py decides what an operation does, tree_session.py and
watches.py are one client's view of it; memory.py, sqlite.py and sqlite_shared.py are engines.
Above any engine: cache.py, locks.py, election.py. records.py says what lies where, urls.py opens.
"""
