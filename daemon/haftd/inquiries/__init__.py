"""Decisions that somebody else makes: one mechanism for all of them.

A `kind` says what is asked, of whom, what an answer must look like, and what follows: `tool_question`,
`secret_prompt`, `client_question`, `turn_end`, `approval`, `result_review`. A new kind is one more file. An inquiry is open until the
first answer, until its deadline, or until it is withdrawn (`pending`). The `router` asks one `backend` after the
other, as the configuration orders them (`client`, `command`, `static`, `llm`, and `fake` for tests), checks each
reply, and keeps answers that count for longer (`memory`).
"""
