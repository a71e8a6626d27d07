"""Pictures of our own: dead leaves, clouds of noise, gradients, text. They belong to nobody else."""

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

Colour = tuple[int, int, int]


def colour(rng: np.random.Generator) -> Colour:
    """One near the middle more often than not: bright pure ones are rare outside."""
    grey = rng.normal(120, 60)
    red, green, blue = np.clip(grey + rng.normal(0, 30, 3), 0, 255).astype(int).tolist()
    return red, green, blue


def clouds(rng: np.random.Generator, side: int) -> NDArray[np.float32]:
    """Noise whose amplitude falls with frequency, as in natural pictures: `(side, side)`, deviation 1."""
    fy, fx = np.fft.fftfreq(side)[:, None], np.fft.rfftfreq(side)[None, :]
    radius = np.maximum(np.hypot(fy, fx), 1 / side)
    spectrum = rng.normal(size=radius.shape) + 1j * rng.normal(size=radius.shape)
    noise = np.fft.irfft2(spectrum / radius ** rng.uniform(0.8, 1.8), (side, side))
    scaled: NDArray[np.float32] = ((noise - noise.mean()) / (noise.std() + 1e-9)).astype(np.float32)
    return scaled


def draw(rng: np.random.Generator, side: int) -> NDArray[np.uint8]:
    """`(side, side, 3)`: shapes over shapes, their sizes by a power law, shaded and textured."""
    picture = Image.new("RGB", (side, side), colour(rng))
    canvas = ImageDraw.Draw(picture)
    for _ in range(int(rng.integers(15, 160))):
        # Radii between 3 and half a side with density r^-3: dead leaves look alike at every scale.
        low, high = 3.0**-2, (side / 2) ** -2
        radius = (low - rng.random() * (low - high)) ** -0.5
        x, y = rng.uniform(0, side, 2)
        kind = rng.integers(0, 5)
        if kind == 0:
            canvas.ellipse([x - radius, y - radius, x + radius, y + radius], fill=colour(rng))
        elif kind == 1:
            stretched = radius * rng.uniform(0.3, 3)
            canvas.rectangle([x - radius, y - stretched, x + radius, y + stretched], fill=colour(rng))
        elif kind == 2:
            angles = np.sort(rng.uniform(0, 2 * np.pi, int(rng.integers(3, 7))))
            corners = [(x + radius * float(np.cos(a)), y + radius * float(np.sin(a))) for a in angles]
            canvas.polygon(corners, fill=colour(rng))
        elif kind == 3:
            end = (x + rng.normal(0, 2 * radius), y + rng.normal(0, 2 * radius))
            canvas.line([(x, y), end], fill=colour(rng), width=int(rng.integers(1, 5)))
        elif rng.random() < 0.3:
            letters = "".join(chr(code) for code in rng.integers(33, 127, int(rng.integers(2, 14))))
            font = ImageFont.load_default(float(rng.uniform(8, 36)))
            canvas.text((x, y), letters, fill=colour(rng), font=font)
    values = np.asarray(picture).astype(np.float32)
    ramp = np.linspace(-1, 1, side, dtype=np.float32)
    shade = rng.normal(0, 25) * ramp[:, None] + rng.normal(0, 25) * ramp[None, :]
    values += (shade + rng.uniform(0, 22) * clouds(rng, side))[:, :, None]
    return np.clip(values, 0, 255).astype(np.uint8)
