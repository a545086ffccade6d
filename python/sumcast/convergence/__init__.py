"""What late and lossy gradients do to learning: `python -m sumcast.convergence`.

Ranks live in one process and run the very code of sumcast.pipeline (averagers.LocalRanks), so that a
run on one core gives the weights that real ranks would.
"""
