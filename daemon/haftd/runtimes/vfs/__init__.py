"""Mediated tools: a process without access of its own, whose requests the daemon answers.

`runtime` starts `mediated`, one call; `requests` queues and answers requests, `programs` runs the programs of
`process.run`.
"""
