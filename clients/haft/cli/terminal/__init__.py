"""The terminal interface of `haft attach`.

An `attachment` joins a handle's terminal to a person's `own_terminal`: `output_filter` filters the program's output,
`keyboard` reads keys and commands, `pending_input` holds input that the program has not taken yet. A
`pollable_client` is polled beside the keyboard.
"""
