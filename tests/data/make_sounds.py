"""Writes the fixtures of test_sounds.cpp into tests/data/sounds/: a short sound in every encoding that is read, and the
spectrogram that librosa makes of it, as NAME.pgm. What has another rate than 16 kHz is resampled by libsoxr first, whose
filter is longer and steeper than that of mlx. Needs NumPy, librosa, soundfile and soxr.

usage: make_sounds.py
"""
import os

import librosa
import numpy
import soundfile

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sounds")
RATE, BANDS = 16000, 64


def made_up(rate, seconds, seed):
    """A chirp, a tone and noise, so that every band has a level that is not only rounding."""
    random = numpy.random.default_rng(seed)
    t = numpy.arange(int(rate * seconds)) / rate
    chirp = 0.3 * numpy.sin(2 * numpy.pi * (200 * t + 20000 * t * t))
    return chirp + 0.2 * numpy.sin(2 * numpy.pi * 700 * t) + 0.02 * random.standard_normal(len(t))


def spectrogram(samples):
    frames = -(-len(samples) // 160)
    powers = numpy.abs(librosa.stft(samples, n_fft=512, hop_length=160, win_length=400, window="hann", center=True,
                                    pad_mode="constant"))[:, :frames] ** 2
    energy = librosa.filters.mel(sr=RATE, n_fft=512, n_mels=BANDS, norm=None, dtype=numpy.float64) @ powers / 100 ** 2
    level = 10 * numpy.log10(numpy.maximum(energy, 1e-30))
    return numpy.clip(numpy.round(2 * (level + 120)), 0, 255).astype(numpy.uint8)[::-1]


def main():
    os.makedirs(OUT, exist_ok=True)
    both = numpy.stack([made_up(RATE, 0.1, 1), made_up(RATE, 0.1, 2)], axis=1)
    files = {
        "u8": (both[:, 0], RATE, "PCM_U8", "WAV"), "s16": (both[:, 0], RATE, "PCM_16", "WAV"), "s24": (both[:, 0], RATE, "PCM_24", "WAV"),
        "s32": (both[:, 0], RATE, "PCM_32", "WAV"), "f32": (both[:, 0], RATE, "FLOAT", "WAV"), "stereo": (both, RATE, "PCM_16", "WAV"),
        "extensible": (both, RATE, "PCM_24", "WAVEX"), "extensible_f32": (both[:, 1], RATE, "FLOAT", "WAVEX"),
    }
    for rate in (8000, 11025, 22050, 44100, 48000):
        files[f"rate{rate}"] = (made_up(rate, 0.08, rate), rate, "PCM_16", "WAV")
    for name, (samples, rate, encoding, form) in files.items():
        path = os.path.join(OUT, name + ".wav")
        soundfile.write(path, samples, rate, subtype=encoding, format=form)
        stored, _ = soundfile.read(path, dtype="float64", always_2d=True)
        mono = stored.mean(axis=1)
        if rate != RATE:
            mono = librosa.resample(mono, orig_sr=rate, target_sr=RATE, res_type="soxr_vhq")
        pixels = spectrogram(mono)
        with open(os.path.join(OUT, name + ".pgm"), "wb") as out:
            out.write(b"P5 %d %d 255\n" % (pixels.shape[1], pixels.shape[0]) + pixels.tobytes())


if __name__ == "__main__":
    main()
