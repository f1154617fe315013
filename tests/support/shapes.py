"""Random objects of a given shape: whatever the decoder lets through, the translation must stand.

The shape is read from the wire structs themselves, so a field that is added is tried
without anybody thinking of it. Words are drawn from those that mean something somewhere,
and from pure noise.
"""

from typing import Any, Final

import msgspec
from hypothesis import strategies as st
from msgspec import inspect

from berth_crds import names

WORDS: Final = (
    *("", "n1", "main", "zone", "metadata.name", "a", "GPU-1", "gpu", "Default", "default"),
    *("cpu", "memory", "hugepages-2Mi", "ephemeral-storage", "example.com/licence"),
    *(names.NVIDIA_GPU, names.GPU, names.GPU_CORE, names.GPU_MEMORY, "nvidia.com/mig-1g.5gb", names.RDMA),
    *(names.ALLOCATION, names.MODEL, names.GANG, names.SCHEDULER_NAME, "default-scheduler"),
    *("0", "1", "2", "100", "150", "500m", "1Gi", "-1", "1e3", "1e99", "9E", "half", "-+5", "9" * 5000),
    *("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Equal", "NoSchedule", "NoExecute"),
    *("Always", "DoNotSchedule", "Running", "Succeeded", "Pending", "True", "False", "Unknown"),
    *("Healthy", "Unhealthy", "NVMLReady", "binpack", "spread", "T4", "NVIDIA A100-SXM4-80GB", " , "),
    '{"v":1,"node":"n1","containers":{"main":{"gpu":[{"uuid":"GPU-1","minor":0,"core":100,"memory":1}]}}}',
    '{"v":1,"node":"n1","containers":{"main":{"rdma":[{"uuid":"r1","minor":0,"core":100,"memory":0}]}}}',
    '{"v":2}',
)
TEXT: Final = st.one_of(st.sampled_from(WORDS), st.sampled_from(WORDS), st.text(max_size=6))
INTEGERS: Final = st.one_of(st.integers(-2, 9), st.integers(-(2**63), 2**63 - 1))
FLOATS: Final = st.floats(allow_nan=False, allow_infinity=False)
ANYTHING: Final[st.SearchStrategy[Any]] = st.one_of(st.none(), st.booleans(), TEXT, st.just({}), st.just([]))
MOST: Final = 3  # Elements of a list or a mapping.


def objects(kind: type) -> st.SearchStrategy[Any]:
    """Give decoded objects of a struct."""
    decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(kind)
    return of(inspect.type_info(kind)).map(msgspec.json.encode).map(decoder.decode)


def of(shape: inspect.Type) -> st.SearchStrategy[Any]:
    """Return JSON values of a shape."""
    match shape:
        case inspect.StructType():
            return _struct(shape)
        case inspect.DictType():
            return st.dictionaries(TEXT, of(shape.value_type), max_size=MOST)
        case inspect.VarTupleType() | inspect.ListType():
            return st.lists(of(shape.item_type), max_size=MOST)
        case inspect.UnionType():
            return st.one_of(*map(of, shape.types))
        case _:
            return _plain(shape)


def _plain(shape: inspect.Type) -> st.SearchStrategy[Any]:
    plain: dict[type[inspect.Type], st.SearchStrategy[Any]] = {
        inspect.StrType: TEXT,
        inspect.IntType: INTEGERS,
        inspect.FloatType: FLOATS,
        inspect.BoolType: st.booleans(),
        inspect.NoneType: st.none(),
        inspect.RawType: ANYTHING,
    }
    return plain[type(shape)]


def _struct(shape: inspect.StructType) -> st.SearchStrategy[Any]:
    fields = {field.encode_name: of(field.type) for field in shape.fields}
    required = {field.encode_name for field in shape.fields if field.required}
    return st.fixed_dictionaries(
        {name: value for name, value in fields.items() if name in required},
        optional={name: value for name, value in fields.items() if name not in required},
    )
