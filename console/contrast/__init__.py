"""What sets some requests apart: every attribute compared between them and the rest, ranked, with chance accounted for.

attributes.py -> what is compared, and how a filter asks for it
samples.py -> which attempts are compared, and what each of them was and lived through, in SQL
meeting.py -> how much work of others they met while they decoded, which is kept of a large run
counting.py -> how many on each side have each value: pure
findings.py -> effect sizes, chance, and the value that tells the sides apart: pure
narrowing.py -> the filter that a finding leads to, or why it leads to none: pure
answer.py -> which requests are compared, and all of it as one document

Absorbed: Honeycomb's BubbleUp, Tempo's `compare()`. Added: effect sizes one can compare, and false discoveries counted.
"""
