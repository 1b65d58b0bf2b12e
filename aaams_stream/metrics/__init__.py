"""How close a segmentation is to the truth: of images and points, and of video."""

from aaams_stream.metrics.image import (
    ImageScores,
    Truths,
    bde,
    boundaries,
    gce,
    pri,
    score_image,
    voi,
)
from aaams_stream.metrics.masks import contour_accuracy, region_similarity
from aaams_stream.metrics.video import ClipScores, VideoScores, score_video

__all__ = [
    "ClipScores",
    "ImageScores",
    "Truths",
    "VideoScores",
    "bde",
    "boundaries",
    "contour_accuracy",
    "gce",
    "pri",
    "region_similarity",
    "score_image",
    "score_video",
    "voi",
]
