"""From a call to a process: `tool_calls` reads the action, `arguments` are checked, and `resolve`
renders the command, with the `environment` and the `confinement` of the process and the PATH of the user's shell
(`loginpath`).
"""
