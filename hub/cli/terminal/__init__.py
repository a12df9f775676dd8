"""What people see and are asked on a terminal: colours, what is under way, questions.

In a pipe there are no colours and no moving lines: programs read the same text. Commands that serve
clients (`run`, `wrap`, `attach`) use the questions alone, so that rich is not loaded for them.

Read in this order:
- `output`: text in a colour, where stdout is a terminal that wants it; what is being done now;
- `questions`: whether a `hub.yaml` is trusted, and the inputs of an editor's config.
"""
