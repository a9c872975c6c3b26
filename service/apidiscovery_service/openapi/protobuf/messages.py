"""What descriptors of messages say."""

from google.protobuf.descriptor import Descriptor, FieldDescriptor


def type_of(field: FieldDescriptor) -> Descriptor:
    """Return the type of a field that holds messages."""
    if field.message_type is None:
        raise TypeError(f"{field.full_name} holds no messages")
    return field.message_type
