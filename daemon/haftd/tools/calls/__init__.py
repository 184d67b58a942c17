"""From a call to a process: `tool_calls` reads the action and checks arguments, `resolve` renders
the command, with the process's `environment` and `confinement` and the PATH of the user's shell
(`loginpath`)."""
