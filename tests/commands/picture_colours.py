"""Which colours a PNG picture (8 bits, RGB or RGBA, as browsers write it) has: JSON with the size, the number of
colours, and the share of each of the most frequent."""
import collections
import json
import struct
import sys
import zlib

data = open(sys.argv[1], "rb").read()
assert data[:8] == b"\x89PNG\r\n\x1a\n"
at, packed = 8, b""
while at < len(data):
    length, kind = struct.unpack(">I4s", data[at:at + 8])
    body = data[at + 8:at + 8 + length]
    if kind == b"IHDR":
        width, height, depth, colour_type = struct.unpack(">IIBB", body[:10])
    elif kind == b"IDAT":
        packed += body
    at += 12 + length
assert depth == 8 and colour_type in (2, 6)
size = 3 if colour_type == 2 else 4
raw, stride = zlib.decompress(packed), width * size
colours = collections.Counter()
before = bytearray(stride)
for y in range(height):
    start = y * (stride + 1)
    kind, row = raw[start], bytearray(raw[start + 1:start + 1 + stride])
    for i in range(stride):
        left = row[i - size] if i >= size else 0
        up = before[i]
        corner = before[i - size] if i >= size else 0
        if kind == 1:
            add = left
        elif kind == 2:
            add = up
        elif kind == 3:
            add = (left + up) // 2
        elif kind == 4:
            guess = left + up - corner
            add = min((abs(guess - left), 0, left), (abs(guess - up), 1, up), (abs(guess - corner), 2, corner))[2]
        else:
            break
        row[i] = (row[i] + add) & 255
    colours.update(bytes(row[i:i + 3]) for i in range(0, stride, size))
    before = row
share = {"#" + colour.hex(): count / (width * height) for colour, count in colours.most_common(200)}
print(json.dumps({"size": [width, height], "colours": len(colours), "share": share}))
