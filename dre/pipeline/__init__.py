"""What stands behind ``make paper``: profiles, the graph of notebooks, fingerprints, execution."""
