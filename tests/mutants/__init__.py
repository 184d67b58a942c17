"""Mutation testing: random one-line faults in the product, each of which the tests should catch.

`python -m tests.mutants` draws them with a seed, runs the tests on each in a jail of its own, and prints how
many were caught, with an interval. `drawing` finds what can be changed in a source, `jail` runs the tests on
a changed file without changing the checkout.
"""
