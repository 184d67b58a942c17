"""A recorded conversation with every method and every kind of error. `script` has the requests,
`recording` makes replies comparable, `recorded.jsonl` holds the answers; `python -m
tests.conversation` records anew."""
