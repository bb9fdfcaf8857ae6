"""A broker of topics: what it decides, in pure modules, and the shells that carry it out.

Pure, and so tested by laws: who may produce (`producers`), what is a double (`deduplication`), who
gets which entry (`dispatch`, `key_shared`, `failover`, `shared_delivery` and its parts), when
(`delayed`, `rate_limit`), and how fast things go (`rates`). Time is always an argument.
"""
