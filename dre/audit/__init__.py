"""What fools a judge, a metric or a small model: cases, measures, scorers."""
