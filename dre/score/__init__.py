"""Scoring the responses of one's own systems: `dre.score.metric.DRE`, ``dre score`` and ``dre calibrate``."""
