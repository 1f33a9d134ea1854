"""Who takes the tail: the time of slow requests beside typical ones, what makes latency vary, and who took whose time.

cohorts.py -> which requests are slow and which typical: filters, and words for them
ledgers.py -> the time of a cohort by phase and cause, to the nanosecond; the excess of one over the other
spread.py -> the variance of E2E as variances and covariances of its parts
interference.py -> victims and culprits
answer.py -> all of it as one document
rows.py, asking.py -> what can be selected on the screen, and what its views ask

A cursor says which requests are looked at (`Session.connect`, `Session.narrow`).
"""
