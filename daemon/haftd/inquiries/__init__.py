"""Inquiries: decisions by a user, a model or another program.

A `kind` defines the message, its readers and the consequences: `tool_question`, `secret_prompt`,
`client_question`, `turn_end`, `approval`, `result_review`. `pending_inquiry` is one inquiry, open
until its end. The `router` asks one `backend` after the other (`client`, `command`, `static`,
`llm`; `fake` for tests); `memory` has remembered answers.
"""
