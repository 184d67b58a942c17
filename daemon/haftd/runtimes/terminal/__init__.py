"""A tool on its own terminal: `runtime` joins process, screen and keyboard.

`screen` draws by the terminal `library` (`frames`, `variation`), in the time of `draw_scheduler`;
`paint` and `screen_reader` read it, `transcript` renders text. `input` writes text and keys by
`encoders`, once `read_watch` and `keyboard_owner` allow.
"""
