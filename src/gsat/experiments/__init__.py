"""The experiments of the paper and beyond it: defences trained and attacked under one protocol, as pieces that resume.

`plan` says what an experiment consists of, `setting` on which data and how large it is, `runner` runs it; then there is
a module for each figure or table, and `paper` has them by name. The commands compare, demo and reproduce use
`comparing`, `demonstration` and `runner`.
"""
