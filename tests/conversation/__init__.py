"""A recorded conversation that uses every method and meets every kind of error.

`script` is what is said, `recording` how replies are made comparable, `recorded.jsonl` what was answered. A
change of the wire shows as a change of that file: `python -m tests.conversation` writes it anew.
"""
