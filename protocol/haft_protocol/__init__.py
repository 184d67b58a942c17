"""Messages and codecs of haft's wire: no I/O, no clock, no event loop, no logging.

`methods` is the table of methods over their types: `params`, `handles` `tools` `sessions` `pushes`
`inquiries` `approvals` `reports` `trust`. Parts: `states` `questions` `inputs` `outcome`, `errors`,
`validation_messages`. Bytes: `framing`, `rpc` in, `encoding` out, `value_counter` and `json_depth`
before decoding, `json_text`. Else: `constants`, `discover`, `markdown`, `model_text`, `paths` `runtime_paths`, `mcp`,
`terminal_queries` `query_filter`, `patterns`, `network_errors`.
"""
