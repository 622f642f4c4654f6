"""A remote filesystem without a network: files of a local folder, at s3://bucket/, with every byte counted."""

import pyarrow as pa
from pyarrow.fs import FileInfo, FileSelector, FileSystemHandler, FileType, LocalFileSystem, PyFileSystem

from countveil.counts import places

BUCKET = "s3://bucket"


class CountedFile:
    """A file that notes what is asked of it, as (name, begin, bytes)."""

    def __init__(self, remote, path):
        self._remote, self._path = remote, path
        self._file = remote.file(path).open("rb")
        self.closed = False

    def read(self, n=-1):
        self._remote.fail(self._path)
        begin, found = self._file.tell(), self._file.read(n)
        self._remote.requests.append((self._path, begin, len(found)))
        return found

    def seek(self, *place):
        return self._file.seek(*place)

    def tell(self):
        return self._file.tell()

    def readable(self):
        return True

    def seekable(self):
        return True

    def writable(self):
        return False

    def close(self):
        self.closed = True
        self._file.close()


class FakeRemote(FileSystemHandler):
    """Only what a reader asks for: all else raises NotImplementedError."""

    def __init__(self, root):
        self.root, self.requests, self.failing = root, [], None
        self._local = LocalFileSystem()

    def fetched(self, path=None):
        """Bytes that were asked for, of all files or of those with this in their name."""
        return sum(n for name, _, n in self.requests if path is None or path in name)

    def file(self, path):
        return self.root / path.removeprefix("bucket").lstrip("/")

    def fail(self, path):
        if self.failing is not None and self.failing[0] in path:
            raise self.failing[1]

    def get_type_name(self):
        return "fake"

    def get_file_info(self, paths):
        for path in paths:
            self.fail(path)
        return [
            self._below(info) for info in self._local.get_file_info([str(self.file(path)) for path in paths])
        ]

    def get_file_info_selector(self, selector):
        inside = FileSelector(str(self.file(selector.base_dir)), recursive=selector.recursive)
        return [self._below(info) for info in self._local.get_file_info(inside)]

    def _below(self, info):
        path = f"bucket/{info.path.removeprefix(str(self.root)).lstrip('/')}"
        size = info.size if info.type == FileType.File else None
        return FileInfo(path, info.type, size=size)

    def open_input_file(self, path):
        self.fail(path)
        if not self.file(path).is_file():
            raise FileNotFoundError(path)
        return pa.PythonFile(CountedFile(self, path), mode="r")

    def _refused(self, *given, **named):
        raise NotImplementedError("a reader asked for more than reading")

    copy_file = create_dir = delete_dir = delete_dir_contents = delete_file = delete_root_dir_contents = (
        _refused
    )
    move = normalize_path = open_append_stream = open_input_stream = open_output_stream = _refused


def remote_of(root, monkeypatch):
    """Now the files of ``root`` lie at s3://bucket/, and no other filesystem is there."""
    remote = FakeRemote(root)

    def open_filesystem(address):
        assert address.startswith(BUCKET)
        return PyFileSystem(remote), address.removeprefix("s3://").partition("?")[0]

    monkeypatch.setattr(places, "open_filesystem", open_filesystem)
    return remote
