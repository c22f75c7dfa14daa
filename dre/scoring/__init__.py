"""Score a dialogue system of your own: files in, scores, intervals, comparisons and their signature out."""
