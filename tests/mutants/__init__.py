"""Mutation testing: random one-line faults in the product, each of which the tests should catch.
`python -m tests.mutants` draws faults with a seed, runs the tests on each in its own jail,
and prints the share caught, with an interval. `drawing` finds and draws the faults of a
source, `jail` runs the tests on a changed file without changing the checkout."""
