"""Mediated tools: processes without any access; the daemon answers their requests.

`runtime` starts `mediated_call`; `requests` queues and answers, `programs` serves `process.run`.
"""
