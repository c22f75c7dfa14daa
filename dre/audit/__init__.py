"""The shortcut audit: what a score reads, the context or the response alone (notebook 07).

``scorers``   what is audited: the SLMs of a recipe, the untrained encoder, rules that never see a context;
``subjects``  a scorer with its scores of the test pairs and its thresholds from dev;
``blind``     accuracies, and how far decisions are those of a model of the response alone;
``swap``      the context exchanged for another conversation's;
``alter``     the context with its turns or words in another order, or cut to its last turn;
``variance``  how much of a score is the response's, the context's, and their interaction's;
``logits``    that the logits of Eq. 15 have no interaction;
``ratings``   correlation with people before and after training;
``summary``   one row a model, and the same in words.
"""
