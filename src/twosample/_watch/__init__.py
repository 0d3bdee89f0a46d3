"""Watching: the same question about batch after batch, however often one looks.

betting    from scores of labellings to an e-value; wealth, and the detector that restarts
evidence   how loudly all views together speak, for every labelling of a batch
base       what a witness is
by_views   the closed-form witness: views, with sums of the past
by_scores  a classifier, or a learned kernel, that was fitted on the latest rows
witnesses  which witness a user asks for
door       columns and scales, fixed by the first batch; every later batch is encoded alike
rows       the latest rows, which views and classifiers are fitted on; the reference, which is spent
watch      `Watch` and what `update` gives
state      a watch in one file, its log, and the lock
schedule   the simple alternative: exact tests on days that are known in advance
"""
