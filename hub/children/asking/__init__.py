"""Questions of children that do not say for which call they ask.

Such a question may go to one client alone, the only one whose call can be its source. This package
may not ask anybody itself: `ChildCallbacks` does.

Main types: `AskingLine` (calls that may ask are sent one after the other), `ToolHabits` (which
tools ask), `OpenQuestions` (questions that wait until their source is plain).

Reading order: `asking_line`, then `open_questions`.
"""
