"""Mediated tools: processes without access of their own; the daemon answers their requests.

`runtime` starts `mediated_call`; `requests` queues and answers, `programs` serves `process.run`.
"""
