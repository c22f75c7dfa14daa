"""What dialogues are called in other people's files: the one table of names for every command.

All names are in small letters here. In files they may be written in any case.
"""

#: Columns with a whole dialogue, whose last message of the assistant is the response.
DIALOGUES = (
    "messages",
    "conversation",
    "conversations",
    "dialog",
    "dialogue",
    "turns",
    "utterances",
    "contents",
    "content",
    "chat",
    "thread",
    "chat_messages",
    "transcript",
    "exchanges",
    "events",
    "log",
    "input",
)
#: Columns with the turns before a response, which stands in a column of its own.
HISTORIES = (
    "history",
    "chat_history",
    "dialog_history",
    "dialogue_history",
    "conversation_history",
    "past_utterances",
)
#: Columns in which a service answers, beside the messages that it was sent.
ANSWERS = ("choices", "candidates", "output")
#: Columns that may be the response. They are named in an error, and never taken.
LIKE_RESPONSE = (
    "reply",
    "answer",
    "output",
    "completion",
    "actual_output",
    "model_output",
    "system_output",
    "bot_response",
    "model_response",
    "generated",
    "generated_text",
    "generation",
    "prediction",
    "hypothesis",
    "candidate",
    "target",
    "label",
    "labels",
    "english_res",
    "chosen",
)
#: Columns that may be the context. They are named in an error, and never taken.
LIKE_CONTEXT = (
    "prompt",
    "instruction",
    "input",
    "user_input",
    "question",
    "query",
    "source",
    "english_ctx",
)
#: Beside one of these columns, ``context`` is often what the reply may draw on (facts).
QUESTIONS = ("input", "user_input", "question", "query")
#: The same, if the column has a sentence. Often it has a name.
LONG_QUESTIONS = ("source", "prompt")

#: Keys of a message that say on whose side it is. Their values must be in `ROLES`.
ROLE_KEYS = ("role", "from", "event", "direction", "author", "type")
#: Keys of a message that say who speaks. Any value may stand there.
NAME_KEYS = (
    *("speaker", "sender", "agent", "user", "username", "author", "name"),
    *("speaker_id", "speaker_name", "speakerid", "sender_id", "sender_name", "user_id"),
    *("participant", "character"),
)
#: Keys of a message that hold its text.
TEXT_KEYS = ("content", "value", "text", "utterance", "message", "parts", "body", "payload")
#: Keys under which a message is wrapped, as LangChain, services and trees do.
WRAPPERS = ("kwargs", "data", "message", "delta")

#: Sides of a dialogue by the words for them.
ROLES = {
    **dict.fromkeys(("user", "human", "customer", "prompter", "client", "incoming"), "user"),
    **dict.fromkeys(
        ("assistant", "gpt", "ai", "bot", "model", "agent", "chatbot", "chatgpt", "outgoing"),
        "assistant",
    ),
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(
        ("tool", "function", "observation", "function_call", "function_response", "ipython"),
        "tool",
    ),
    # Events of Rasa that nobody speaks.
    **dict.fromkeys(
        ("action", "slot", "session_started", "active_loop", "followup", "restart", "rewind"),
        "tool",
    ),
}
#: Values of ``type`` that say nothing about who speaks.
NEUTRAL_TYPES = ("message", "constructor", "text", "chat", "not_implemented")
#: Ends of ``type`` by what such a message or part of one is. None of them is spoken.
UNSPOKEN_TYPES = {
    "thinking": "thoughts",
    "reasoning": "thoughts",
    "thought": "thoughts",
    "_call": "tool calls",
    "tool_use": "tool calls",
    "_output": "tool results",
    "_result": "tool results",
    "image": "images and files",
    "image_url": "images and files",
    "audio": "images and files",
    "video": "images and files",
    "file": "images and files",
    "document": "images and files",
}
#: Types of parts that hold spoken text although their end is in `UNSPOKEN_TYPES`.
SPOKEN_TYPES = ("text", "input_text", "output_text", "refusal")
#: Keys of a message whose presence is a call of a tool.
TOOL_CALLS = ("tool_calls", "function_call", "functioncall")

#: Texts that separate turns, or end them, in files of data sets and models.
SEPARATORS = (
    "__eou__",
    "__eot__",
    "_EOS_",
    "<eou>",
    "<eot>",
    "<EOS>",
    "<eos>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|user|>",
    "<|assistant|>",
    "<start_of_turn>",
    "<end_of_turn>",
    "[SEP]",
    "[EOS]",
    "[EOU]",
    "[TURN]",
    "[INST]",
    "[/INST]",
    "<sep>",
    "<SEP>",
    "</s>",
    "<br>",
    "<br/>",
    "<br />",
    "</p>",
    "</user>",
    "</assistant>",
    "<|human|>",
    "<|bot|>",
    "<|system|>",
    "### Instruction:",
    "### Input:",
    "### Response:",
    " | ",
    " || ",
    " ||| ",
    "\t",
)
#: Words for the two sides of a dialogue, where they begin a turn and a colon follows.
USER_TAGS = ("user", "human", "customer", "client", "usr", "person", "q", "question")
ASSISTANT_TAGS = (
    "assistant",
    "system",
    "bot",
    "ai",
    "gpt",
    "chatgpt",
    "chatbot",
    "agent",
    "model",
    "sys",
    "a",
    "answer",
)
