"""Scoring the responses of your own systems.

See `dre.score.metric.DRE` and ``dre score``.
"""
