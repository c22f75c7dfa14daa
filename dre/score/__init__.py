"""Scoring the responses of your own systems.

See `dre.score.metric.DRE`, ``dre score`` and ``dre calibrate``.
"""
