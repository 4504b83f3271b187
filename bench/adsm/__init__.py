"""Section 5 of papers/5 repeated: what the updates of fine-grained memory cost (design/0022).

``python -m bench.adsm`` runs all of it and writes tables, pictures and raw numbers.  ``programs``: the seven
of Parboil that the paper runs, three of them here, and its three others; ``measure``: each run in a process
of its own; ``report``, ``plots``: its figures 7 to 12, with what it says beside ours.
"""
