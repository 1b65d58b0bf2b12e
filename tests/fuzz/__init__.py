"""Campaigns that damage what comes in and look for tracebacks, hangs and silently wrong data.

python -m tests.fuzz --minutes 30 [--only NAME] [--seed N]

Most are modules with `cases(seed)`, which draws one case after the other, for ever and the
same for a seed, and `Check`, which tries one in a folder of its own and returns what is wrong with
it, or nothing. `volumes`, `kills` and `races` have a `campaign` of their own. The ordinary tests
try the first few of each.
"""
