"""Inquiries: decisions by a user, a model or another program.

A `kind` defines message and consequences (`tool_question`, `secret_prompt`, `client_question`,
`turn_end`, `approval`, `result_review`); a `pending_inquiry` is open until its end. The `router`
asks each `backend` in turn (`client`, `command`, `static`, `llm`, `fake`); `memory` has remembered
answers.
"""
