"""The named data sets: each from its files to a `Table`, with the traps of `PROVENANCE.md` handled."""
