"""A criterion in one line: the prompt that *How polite is the reply?* stands for.

The reply of the judge is a JSON object with a schema, so no text of a dialogue is read as a score.
"""

import json

from dre.errors import DreError
from dre.judges.prompts import Prompt, from_text

_TEMPLATE = """---
# Not sent to the model: everything up to the second line of dashes.
kind: score
scale: [0, 5]
output: json
criterion: %s
---
[user]
You are given the context of a conversation and a response to it. The first speaker is marked FS,
the second SS.
{{notice}}

Context:
{{context}}

Response:
{{response}}

Answer one question about the response, and look at nothing else. No explanation is needed.
Question: %s
Answer with any number between 0.0 (not at all) and 5.0 (as much as possible).

Reply with one JSON object and nothing else: {"score": <number from 0.0 to 5.0>}
"""


def prompt_for(question: str) -> Prompt:
    """Return the prompt that asks a question about a response, on a scale from 0 to 5."""
    question = " ".join(question.split())
    if not question or "{{" in question:
        raise DreError(f"the criterion is {question!r}: expected a question about the reply")
    # A text in JSON is one in YAML, too.
    template = _TEMPLATE % (json.dumps(question, ensure_ascii=False), question)
    return from_text(question, template, "the prompt of the criterion")
