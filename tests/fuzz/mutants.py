"""Mutants of files: bytes that are damaged, and whole files with other content under a right digest."""

import io
import json
import warnings
import zipfile
from copy import deepcopy

import numpy as np

from tests.model.test_storage import reseal
from tikhonet.paper.records import seal

VALUES = (
    None, True, -1, 0, 1, 2, 7, 2**31, 2**63, 10**15, 10**400, 0.0, 5e-324, 1e308, -1e308, "", "x", "\x1b[2J",
    "<U60000000", "<i8", "O", "|V8", "tree", "ivf", "hash", "dense", "identity", "energy", "A" * 5000, [], {}, [[]],
    {"pairs": 3}, [1] * 50,
)  # fmt: skip
NUMBERS = (0.0, -0.0, 1.0, -1.0, 5e-324, 1e-300, 1e38, 1e300, -1e308, np.nan, np.inf)
DTYPES = ("int8", "uint8", "int16", "int32", "int64", "float16", "float32", "float64", ">f8", ">i4", "<U3", "bool")


def damaged(raw, draw):
    """Bytes changed, cut out, repeated or put in."""
    raw = bytearray(raw)
    for _ in range(draw.choice((1, 1, 2, 5))):
        at, length = draw.randrange(len(raw) + 1), draw.choice((1, 1, 4, 30))
        match draw.randrange(4):
            case 0:
                raw[at : at + length] = draw.randbytes(len(raw[at : at + length]))
            case 1:
                del raw[at : at + length]
            case 2:
                raw[at:at] = raw[at : at + length]
            case 3:
                raw[at:at] = draw.choice((b"\0" * length, b"\xff" * length, draw.randbytes(length)))
    return bytes(raw[: draw.randrange(len(raw) + 1)] if draw.random() < 0.1 else raw)


def changed(content, draw):
    """JSON with something in it replaced, dropped or added."""
    value = deepcopy(draw.choice(VALUES))
    if isinstance(content, (dict, list)) and content and draw.random() < 0.85:
        keys = list(content) if isinstance(content, dict) else range(len(content))
        key = draw.choice(list(keys))
        match draw.randrange(8):
            case 0:
                del content[key]
            case 1 if isinstance(content, dict):
                content[draw.choice(("n_bits", "self", "x", "lists", "flips", "network"))] = value
            case 1 | 2 if isinstance(content, list):
                content.append(deepcopy(draw.choice((content[key], value))))
            case _:
                content[key] = changed(content[key], draw)
        return content
    return value


def changed_array(values, draw):
    """An array of another type, shape or content."""
    text = values.dtype.kind == "U"
    match draw.randrange(4):
        case 0:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return values.astype(draw.choice(("<U1", "<U9", "S2") if text else DTYPES))
        case 1:
            return values[: draw.randrange(len(values) + 1)] if values.ndim and len(values) else values[None]
        case 2 if values.size and not text:
            values = values.copy()
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                values.flat[draw.randrange(values.size)] = np.array(draw.choice(NUMBERS)).astype(values.dtype)
            return values
    return draw.choice((values.T, values.ravel(), np.repeat(values[None], 2, 0), values[..., None]))


def resealed(raw, draw):
    """A model file with other content under a right SHA-256."""
    length = int.from_bytes(raw[:8], "little")
    entries, data = json.loads(raw[8 : 8 + length]), raw[8 + length :]
    seal = json.loads(entries["__metadata__"]["tikhonet"])
    for _ in range(draw.choice((1, 1, 2))):
        if draw.random() < 0.7:
            seal["header"] = changed(seal["header"], draw)
        else:
            entries, data = changed_tensors(entries, data, draw)
    entries["__metadata__"] = {"tikhonet": json.dumps(seal, separators=(",", ":"))}
    text = json.dumps(entries, separators=(",", ":")).encode()
    return reseal(len(text).to_bytes(8, "little") + text + data)


def changed_tensors(entries, data, draw):
    names = {"F32": np.float32, "F64": np.float64, "I64": np.int64, "U8": np.uint8, "I32": np.int32, "F16": np.float16}
    kinds = {np.dtype(kind): name for name, kind in names.items()}
    arrays = {
        name: np.frombuffer(data[slice(*entry["data_offsets"])], names[entry["dtype"]]).reshape(entry["shape"])
        for name, entry in entries.items()
        if name != "__metadata__"
    }
    chosen = draw.choice(list(arrays))
    made = changed_array(arrays[chosen], draw)
    arrays[chosen] = made if made.dtype in kinds else np.frombuffer(made.tobytes(), np.uint8)
    if draw.random() < 0.1:
        arrays[draw.choice(("W.9.0", "V", "centres", "coef", "x"))] = arrays.pop(chosen)
    parts, offset = {"__metadata__": None}, 0
    for name, values in arrays.items():
        parts[name] = {
            "dtype": kinds[values.dtype],
            "shape": values.shape,
            "data_offsets": [offset, offset + values.nbytes],
        }
        offset += values.nbytes
    return parts, b"".join(values.tobytes() for values in arrays.values())


def rezipped(raw, draw):
    """An .npz file with other arrays, or another header inside."""
    with np.load(io.BytesIO(raw)) as file:
        arrays = dict(file)
    chosen = draw.choice(list(arrays))
    if chosen == "header" or ("header" in arrays and draw.random() < 0.4):
        text = json.dumps(changed(json.loads(arrays["header"].tobytes()), draw)).encode()
        arrays["header"] = np.frombuffer(text, np.uint8)
    elif draw.random() < 0.1:
        del arrays[chosen]
    else:
        arrays[chosen] = changed_array(arrays[chosen], draw)
    made = io.BytesIO()
    with zipfile.ZipFile(
        made, "w", draw.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA))
    ) as archive:
        for name, values in arrays.items():
            content = io.BytesIO()
            np.save(content, values, allow_pickle=False)
            text = content.getvalue()
            if draw.random() < 0.05:
                text = text.replace(b"(", b"(99999999", 1)
            archive.writestr(f"{name}.npy", text)
    return made.getvalue()


def rewritten(raw, draw):
    """Lines of records with other content, under right digests."""
    lines = [json.loads(line) for line in raw.splitlines()]
    chosen = draw.randrange(len(lines))
    lines[chosen] = changed(lines[chosen], draw)
    contents = [line if isinstance(line, dict) else {"version": line} for line in lines]
    return "".join(seal({k: v for k, v in line.items() if k != "digest"}) for line in contents).encode()


def mutate(raw, draw):
    if raw.startswith(b'{"version"') and draw.random() < 0.7:
        return rewritten(raw, draw)
    if raw[8:24].startswith(b'{"__metadata__"') and draw.random() < 0.8:
        return resealed(raw, draw)
    if raw.startswith(b"PK") and draw.random() < 0.6:
        return rezipped(raw, draw)
    return damaged(raw, draw)
