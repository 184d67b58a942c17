"""Runtimes: one way of running a tool a file, all behind one coroutine."""
