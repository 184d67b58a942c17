"""The questions of a use, one at a time (`asking`), and finding whoever answers them.

The `desk` asks its backends in order, at a turn's end too (`turnend`), each behind the seam `base`:
`client`, `command`, `static`, a model (`llm`), and `fake` for tests.
"""
