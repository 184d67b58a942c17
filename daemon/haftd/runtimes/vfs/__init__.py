"""Mediated tools: processes without access of their own, whose requests the daemon answers.

`runtime` starts `mediated_call`; `requests` queues and answers, `programs` serves
`process.run`.
"""
