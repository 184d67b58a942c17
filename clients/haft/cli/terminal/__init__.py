"""Terminal interface of `haft attach`.

An `attachment` joins a handle's terminal to a person's `own_terminal`: `terminal_modes` notes the
modes to reset, `keyboard` separates text and commands, and `pending_input` sends the text over a
`pollable_client`.
"""
