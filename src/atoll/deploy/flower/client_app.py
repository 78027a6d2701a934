"""Atoll's ClientApp: hands a message to the site that lives beside the SuperNode.

Flower starts a new process for every message. It must start quickly, so nothing heavy is imported
here and nothing is remembered: both are the site's business (:mod:`atoll.deploy.flower.supernode`).
"""

from __future__ import annotations

import os

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from atoll.deploy.flower.payload import content, record
from atoll.deploy.flower.pipe import request
from atoll.deploy.flower.programs import SOCKET

client = ClientApp()


@client.query()
def answer(message: Message, _: Context) -> Message:
    return Message(record(request(os.environ[SOCKET], content(message))), reply_to=message)
