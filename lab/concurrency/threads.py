# A function with a thread for each connection: python3 threads.py PORT WAIT CPU, in seconds.
# It ends with its standard input.
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

port, wait, cpu = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self):
        if self.path != "/empty":
            time.sleep(wait)
            end = time.thread_time() + cpu
            while time.thread_time() < end:
                sum(range(200))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024


def watch():
    sys.stdin.read()
    os._exit(0)


threading.Thread(target=watch, daemon=True).start()
Server(("127.0.0.1", port), Handler).serve_forever()
