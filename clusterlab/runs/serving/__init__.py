"""``clusterlab serve``: the pages of runs on loopback, behind a token, while they are written.

``wire`` reads a request and writes an answer, ``gate`` says who may ask, ``places`` which run a name
means, ``worker`` renders in a process of its own, ``rendered`` keeps what it made, ``routes`` answers,
``server`` holds the connections.
"""
