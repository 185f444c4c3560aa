"""A way to a TCP port on this machine that is slow, breaks, or counts.

usage: tcp_proxy.py PORT [--delay MS] [--cut BYTES]. Prints the port that it listens on, then a line for each connection that has
ended: "TURNS SENT RECEIVED", how often the client spoke after it had heard something, and the bytes both ways. --delay holds every byte
back for so long in each direction; --cut hangs up once the client has sent so many bytes.
"""
import argparse
import asyncio
import time

parser = argparse.ArgumentParser()
parser.add_argument("port", type=int)
parser.add_argument("--delay", type=float, default=0)
parser.add_argument("--cut", type=int, default=0)
options = parser.parse_args()


class Connection:
    def __init__(self):
        self.turns = 0
        self.speaker = "server"
        self.bytes = {"client": 0, "server": 0}

    async def pump(self, who, reader, writer):
        """Reads at once, writes when the delay has passed, so that bandwidth stays what it is."""
        queue = asyncio.Queue(maxsize=1000)

        async def later():
            while (item := await queue.get()) is not None:
                due, data = item
                await asyncio.sleep(max(0, due - time.monotonic()))
                writer.write(data)
                await writer.drain()
            writer.close()

        task = asyncio.create_task(later())
        try:
            while data := await reader.read(65536):
                if who == "client" and self.speaker == "server":
                    self.turns += 1
                self.speaker = who
                if who == "client" and options.cut:
                    data = data[: max(0, options.cut - self.bytes[who])]
                self.bytes[who] += len(data)
                await queue.put((time.monotonic() + options.delay / 1000, data))
                if who == "client" and options.cut and self.bytes[who] >= options.cut:
                    break
        except ConnectionError:
            pass
        await queue.put(None)
        try:
            await task
        except ConnectionError:
            pass


async def serve(reader, writer):
    connection = Connection()
    there_reader, there_writer = await asyncio.open_connection("127.0.0.1", options.port)
    pumps = [
        asyncio.create_task(connection.pump("client", reader, there_writer)),
        asyncio.create_task(connection.pump("server", there_reader, writer)),
    ]
    await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED if options.cut else asyncio.ALL_COMPLETED)
    for end in (writer, there_writer):
        end.close()
    print(connection.turns, connection.bytes["client"], connection.bytes["server"], flush=True)


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
