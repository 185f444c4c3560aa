"""Writes the fixtures of test_pictures.cpp into tests/data/pictures/ and pictures.txt: small files of every format with the
SHA-256 of what Pillow decodes, and of what its resize and torchvision's changes make of made-up pixels. Needs Pillow, NumPy
and torchvision.

usage: make_pictures.py
"""
import hashlib
import os

import numpy
from PIL import Image, ImageOps
from torchvision.transforms import functional
from torchvision.transforms.autoaugment import InterpolationMode, RandAugment, _apply_op

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "pictures")


def made_up(height, width):
    y, x, c = numpy.mgrid[0:height, 0:width, 0:3]
    return ((x * 7 + y * 13 + c * 31 + x * y * (c + 3)) % 256).astype(numpy.uint8)


def smooth(height, width):
    y, x, c = numpy.mgrid[0:height, 0:width, 0:3]
    return ((x * 9 + y * 5 + c * 40) % 256).astype(numpy.uint8)


def digest(picture):
    return hashlib.sha256(numpy.ascontiguousarray(picture).tobytes()).hexdigest()


def save_all():
    p = Image.fromarray(smooth(13, 21))
    alpha = p.convert("RGBA")
    alpha.putalpha(p.convert("L"))
    few = p.quantize(13)
    grey = p.convert("L")
    files = {
        "420.jpg": (p, {"quality": 85}), "444.jpg": (p, {"quality": 95, "subsampling": 0}), "progressive.jpg": (p, {"progressive": True}),
        "grey.jpg": (grey, {}), "cmyk.jpg": (p.convert("CMYK"), {}),
        "rgb.png": (p, {}), "alpha.png": (alpha, {}), "palette.png": (few, {"bits": 4}), "transparent.png": (few, {"transparency": 3}),
        "bits.png": (p.convert("1"), {}), "grey.png": (grey, {}),
        "lossy.webp": (p, {}), "lossless.webp": (alpha, {"lossless": True}),
        "raw.tif": (p, {}), "lzw.tif": (p, {"compression": "tiff_lzw"}), "alpha.tif": (alpha, {}), "cmyk.tif": (p.convert("CMYK"), {}),
        "fax.tif": (p.convert("1"), {"compression": "group4"}),
        "rgb.bmp": (p, {}), "grey.bmp": (grey, {}), "palette.bmp": (few, {}), "bits.bmp": (p.convert("1"), {}),
        "rgb.ppm": (p, {}), "grey.pgm": (grey, {}),
        "large.jpg": (Image.fromarray(smooth(67, 93)), {"quality": 80}),
    }
    for orientation in range(2, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        files[f"turned{orientation}.jpg"] = (p, {"exif": exif, "quality": 30})
    for name, (picture, options) in files.items():
        picture.save(os.path.join(OUT, name), **options)
    return sorted(files)


def changed(picture):
    """Pairs of a change, with its strength, and the picture that it makes."""
    for factor in (0.0, 0.3, 0.85, 1.0, 1.7):
        yield f"brightness {factor}", functional.adjust_brightness(picture, factor)
        yield f"contrast {factor}", functional.adjust_contrast(picture, factor)
        yield f"saturation {factor}", functional.adjust_saturation(picture, factor)
        yield f"sharpness {factor}", functional.adjust_sharpness(picture, factor)
    for turn in (-0.5, -0.13, 0.0, 0.07, 0.5):
        yield f"hue {turn}", functional.adjust_hue(picture, turn)
    for degrees in (-170.5, -30.0, 7.25, 45.0, 180.0):
        yield f"rotate {degrees}", functional.rotate(picture, degrees)
    # RandAugment's operations under the names that mlx gives them.
    space = RandAugment()._augmentation_space(31, (picture.height, picture.width))
    names = ["identity", "shear_x", "shear_y", "translate_x", "translate_y", "rotate", "brightness", "saturation", "contrast", "sharpness",
             "posterize", "solarize", "autocontrast", "equalize"]
    for name, (theirs, (strengths, signed)) in zip(names, space.items()):
        for magnitude in (0, 9, 30) if strengths.ndim else (0,):
            for sign in (1, -1) if signed else (1,):
                strength = sign * float(strengths[magnitude] if strengths.ndim else 0)
                yield f"rand:{name} {sign * magnitude}", _apply_op(picture, theirs, strength, InterpolationMode.NEAREST, None)


def main():
    os.makedirs(OUT, exist_ok=True)
    with open(os.path.join(HERE, "pictures.txt"), "w", encoding="utf-8") as table:
        for name in save_all():
            picture = numpy.asarray(ImageOps.exif_transpose(Image.open(os.path.join(OUT, name))).convert("RGB"))
            table.write(f"file {name} {picture.shape[0]} {picture.shape[1]} {digest(picture)}\n")
        for height, width, box, to_height, to_width in [
                (37, 53, None, 16, 16), (37, 53, None, 100, 90), (37, 53, (3.5, 2.25, 40, 30.75), 20, 24), (37, 53, None, 37, 10),
                (37, 53, None, 9, 53), (1, 300, None, 7, 5), (300, 1, None, 5, 7), (375, 500, None, 224, 224), (37, 53, (50, 34, 53, 37), 8, 8)]:
            box = box or (0, 0, width, height)
            for mode in ("RGB", "L"):
                pixels = made_up(height, width)
                picture = Image.fromarray(pixels if mode == "RGB" else pixels[:, :, 0].copy())
                result = picture.resize((to_width, to_height), Image.BILINEAR, box=box)
                channels = len(picture.getbands())
                sizes = " ".join(str(value) for value in (height, width, channels, *box, to_height, to_width))
                table.write(f"resize {sizes} {digest(numpy.asarray(result))}\n")
        for height, width in [(23, 31), (16, 3)]:
            for mode in ("RGB", "L"):
                picture = Image.fromarray(made_up(height, width) if mode == "RGB" else made_up(height, width)[:, :, 0].copy())
                for change, result in changed(picture):
                    table.write(f"change {height} {width} {len(picture.getbands())} {change} {digest(numpy.asarray(result))}\n")


if __name__ == "__main__":
    main()
