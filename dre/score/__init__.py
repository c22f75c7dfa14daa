"""Scoring the responses of one's own systems.

See `dre.score.metric.DRE`, ``dre score`` and ``dre calibrate``.
"""
