"""A ranked account of the tail: what makes slow requests slow, through whom, in which steps, and what would help.

arrivals.py, prefixes.py -> rules of their own: pinned arrivals, and a cache that stops to hit
cells.py, spending.py -> the excess of the slow cohort in pieces: by cause, root and culprit; the questions behind them
evidence.py, gathering.py, asking.py -> everything that is known of a run, as plain data, and how it is asked
finding.py -> what a suspect says
suspects/ -> the rules, a file a family: each claims pieces of the excess and tells what they come of
ranking.py -> pieces to suspects, each to one only; the order; what stands out
whatif.py -> the suggested setting, re-run in virtual time
"""
