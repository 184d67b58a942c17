"""Messages and codecs of haft's wire, without I/O, clock, event loop or logging.

`methods` is the table of methods; types: `params` `handles` `tools` `sessions` `pushes` `inquiries`
`approvals` `reports` `trust` `states` `questions` `inputs` `outcome` `errors`
`validation_messages`. Bytes: `framing` `rpc` `encoding` `json_text`. Else: `constants` `discover`
`model_text` `paths` `runtime_paths` `mcp` `terminal_queries` `patterns` `network_errors`
`ellipsis`.
"""
