"""Notices about handles: a session learns that a handle stopped, failed, asks or has printed.

`queues` keeps undelivered notices by session. `output_watcher` reads the output of the handles whose definitions have
`notify`, with a `pattern_scanner`, and collects `matches`. `delivery` puts a notice into its queue and pushes it to
subscribers. The settings themselves are `notice_settings`; `tools/definitions/notice_rules` reads them.
"""
