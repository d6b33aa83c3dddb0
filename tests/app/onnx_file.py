"""Reads an ONNX file far enough to hold its structure against what is expected; needs no library."""

import struct

import numpy as np


def fields(data):
    """The (field, value) pairs of one message: int, 4 bytes or bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = varint()
        field, kind = key >> 3, key & 7
        if kind == 0:
            yield field, varint()
        elif kind == 2:
            size = varint()
            if at + size > len(data):
                raise ValueError("a field is longer than its message")
            yield field, data[at:at + size]
            at += size
        elif kind == 5:
            yield field, data[at:at + 4]
            at += 4
        else:
            raise ValueError(f"wire type {kind}")


def first(data, field):
    return next(value for found, value in fields(data) if found == field)


def all_of(data, field):
    return [value for found, value in fields(data) if found == field]


def attributes(node):
    found = {}
    for data in all_of(node, 5):
        kind = first(data, 20)
        found[first(data, 1).decode()] = {1: lambda: struct.unpack("<f", first(data, 2))[0], 2: lambda: first(data, 3),
                                          3: lambda: first(data, 4).decode(),
                                          7: lambda: all_of(data, 8)}[kind]()
    return found


class Onnx:
    """ir_version, operator_set, nodes [(operation, inputs, outputs, attributes)], tensors {name: array}, metadata,
    input and output (name, dimensions)."""

    def __init__(self, path):
        with open(path, "rb") as file:
            model = file.read()
        self.ir_version = first(model, 1)
        operators = first(model, 8)
        self.operator_set = (first(operators, 1).decode(), first(operators, 2))
        self.metadata = {first(entry, 1).decode(): first(entry, 2).decode() for entry in all_of(model, 14)}
        graph = first(model, 7)
        self.nodes = [(first(node, 4).decode(), [name.decode() for name in all_of(node, 1)],
                       [name.decode() for name in all_of(node, 2)], attributes(node)) for node in all_of(graph, 1)]
        self.tensors = {}
        for tensor in all_of(graph, 5):
            kind = {1: "<f4", 7: "<i8"}[first(tensor, 2)]
            self.tensors[first(tensor, 8).decode()] = np.frombuffer(first(tensor, 9), kind).reshape(all_of(tensor, 1))
        self.input, self.output = (self._value(first(graph, field)) for field in (11, 12))

    @staticmethod
    def _value(info):
        tensor_type = first(first(info, 2), 1)
        if first(tensor_type, 1) != 1:
            raise ValueError("a value is not of float32")
        dimensions = [value if isinstance(value, int) else value.decode()
                      for dimension in all_of(first(tensor_type, 2), 1) for _, value in fields(dimension)]
        return first(info, 1).decode(), dimensions
