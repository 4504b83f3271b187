"""The wire between the C client and the service: one table, from which the C side is generated too.

Two stream sockets and one memfd arena join an application to its service.

* **commands** (client → service: records, which from RING on go through the ring in the arena; service →
  client: one FACTS record at start, then one REPLY per record of ``REPLIED``).  Every record starts with
  ``Header``; ``nbytes`` counts the whole record, header and padding included, and is a multiple of 8.  All
  integers are little-endian, in C layout (each field is aligned to its size).  After the fixed fields of a
  command come its wait list (``num_waits`` ids of 8 bytes), then its variable part, padded with zeros to 8
  bytes.
* **notices** (service → client: ``NOTICE`` records; never anything else): read by the completion thread.
  Those of kind PRINTED and FAILED have a variable part, all others none.
* **arena**: page 0 is ``ArenaHeader``; the event status page follows at ``SLOTS_OFFSET``, the ring at
  ``RING_OFFSET``, the client's staging memory at ``STAGING_OFFSET``; what the service hands out starts at
  ``HEAP_OFFSET``.

Ids are chosen by the client from one counter that starts at 1 and are never reused, but by REUSE_BUFFER; a
command's id is its event's id.  0 is "none".

Transfers.  READ, WRITE (and MAP, UNMAP with ``transfer`` = 1) copy between the arena and the application's
memory.  The copy is done by the client: the service stores in the command's slot how many bytes may be
copied (``ready_nbytes``, growing up to the total), bumps ``epoch`` and, when ``blocking`` is 0, sends a
notice; the calling thread (blocking) or the completion thread (not blocking) copies and answers
TRANSFER_DONE.  The service publishes COMPLETE after that.  A rectangle becomes ready as a whole, in the
buffer's memory or, for READ and WRITE, packed elsewhere in the arena (``packed_at``).  Two kinds of WRITE are
no transfers: nothing more is said about them.  Bytes for a buffer that no command but such writes has named
since it was created or reused are *written early*: the client has copied when the record is sent.  So are
those that are too many to be staged, while no command of any queue is under way, for buffers that rest then
(``resting_nbytes``); nothing is sent by another thread while they are copied.  A WRITE
whose bytes could be read when it was enqueued *carries* them in its record where they are few, and else has
them *staged*: the client has put them into the arena's staging memory, at ``staged_at``.  The service takes
them when it comes to the record, in the order of records, and counts them in ``taken_nbytes``, then or, where
it keeps many or members take them from there, when the command is over; where all are taken the client begins
at the front again.  Of both ``is_mapped`` says whether the buffer was ever mapped for writing: then the
application may just be storing beside them, into the arena.

Output.  Launches of kernels whose table says PRINTS end like transfers: the service sends a PRINTED notice
with everything that kernels have printed so far, the completion thread writes it to the application's
``stdout`` and answers TRANSFER_DONE.  Where nothing was printed there is no notice.

Devices.  The application sees one device, the image, or each member as a device of its own: FACTS says which.
``member`` in a command is then 1 + the number of the member whose device its queue is for; with an image 0:
who does it is the service's choice.  It counts among what a command is known by.

Publication.  Times and ``ready_nbytes``, and ``packed_at`` before that, are stored before ``status``; after a
batch of stores the service increments ``epoch`` and wakes all its futex waiters.  Who is about to sleep there
has counted itself in ``waiters`` before; where that is 0 nobody need be woken.  The service reads no more of
header and slots than these two, so an application that scribbles over them harms only itself.
"""

from __future__ import annotations

import struct
from enum import IntEnum

from sdi.wire.arguments import (
    ARG_ENTRY,
    IMAGE_ARGUMENT,
    LOCAL_ARGUMENT,
    POINTER_ARGUMENT,
    SAMPLER_ARGUMENT,
)
from sdi.wire.layout import Fields, fields, layout, numbered

PROTOCOL_VERSION = 19
MAGIC = 0x53444941_52454E41

ARENA_NBYTES = 1 << 40
SHARED_ADDRESSES = (0x2000_0000_0000, 0x3000_0000_0000, 0x4000_0000_0000, 0x7000_0000_0000)
"""Where the arena may be for applications, members and service: most have nothing there, with
AddressSanitizer too.
"""
NEAR_ADDRESS, NEAR_NBYTES = 0x40_0000_0000, 240 << 30
"""Where a smaller one may be where an application has none of these free: ThreadSanitizer takes them all."""
SLOT_NBYTES = 64
NUM_SLOTS = 1 << 20
SLOTS_OFFSET = 4096
RING_OFFSET = 65 << 20
RING_BYTES_OFFSET = RING_OFFSET + 4096
RING_NBYTES = 1 << 18
STAGING_OFFSET = 66 << 20
STAGING_NBYTES = 30 << 20
HEAP_OFFSET = STAGING_OFFSET + STAGING_NBYTES
MAX_RECORD_NBYTES = 1 << 28
PATTERN_MAX_NBYTES = 128
FAILURE_MAX_NBYTES = 4096
"""Of the text of a FAILED notice."""
CARRIED_MAX_NBYTES = 8 << 10
"""Of a write's bytes that come with its record: a socket takes more than half a microsecond for a KiB."""
STAGED_MAX_NBYTES = 8 << 20
"""Of a write's bytes that are staged: more are copied once, by several threads, where they belong."""
STAGED_TWICE_MAX_NBYTES = 2 << 20
"""Likewise where the service copies them, too."""


class Op(IntEnum):
    """What a record says, with the fields of its body."""

    body: Fields

    def __new__(cls, number: int, body: str = "") -> Op:
        op = int.__new__(cls, number)
        op._value_, op.body = number, fields(body) if body else ()
        return op

    # variable part: ``num_facts`` entries of INFO_ENTRY, each followed by its bytes padded to 8; then, when
    # status is not 0, nothing but ``message_nbytes`` bytes of text.  The memfd comes along (SCM_RIGHTS).
    # arena_address: where members find the arena's bytes when kernels follow pointers, 0: nowhere; the client
    # maps them there too, or has no shared virtual memory.  file_offset: from there on the arena is a file on
    # disk, whose descriptor comes along too; 0: nowhere.
    FACTS = (
        1,
        "u32 version; i32 status; u64 arena_nbytes; u64 arena_address; u64 file_offset; u32 num_facts;"
        " u32 message_nbytes",
    )
    # variable part: as the replied record says
    REPLY = 2, "i32 status; u32 reserved; u64 value; u64 payload_nbytes"
    # variable part of PRINTED and FAILED: text_nbytes bytes, padded
    NOTICE = 3, "u32 kind; i32 status; u64 text_nbytes"
    # the application has the build as a binary: later runs shall build that as quickly as a driver does
    KEEP_BUILD = 9
    # reply value: arena offset of the buffer's first byte (4096-aligned)
    CREATE_BUFFER = 10, "u64 flags; u64 buffer_nbytes; u64 shift"
    RELEASE_BUFFER = 11
    # variable part: options, working directory, source (not terminated, not padded between)
    # id: a new build id; reply payload: BUILD_REPLY, log bytes padded to 8, then KERNEL_ENTRY ... each,
    # then an object, from which the program can be made again by LINK
    BUILD = 12, "u32 options_nbytes; u32 directory_nbytes; u64 source_nbytes"
    RELEASE_BUILD = 13
    # listener: the context that hears of the queue's commands that fail (FAILED notices), or 0
    # unasked: the client's own, for memory of the application that buffers use; 1: what is in it may wait for
    # nothing else of it, 2: for what came before, but the client waits for one such at a time
    CREATE_QUEUE = 14, "u64 properties; u64 listener; u32 unasked; u32 reserved"
    RELEASE_QUEUE = 15
    CREATE_USER_EVENT = 16, "u32 slot; u32 reserved"
    SET_USER_EVENT = 17, "i32 status; u32 reserved"
    RELEASE_EVENT = 18
    # ask for an EVENT_STATUS notice when the event's status becomes <= status (negative: always)
    WATCH = 19, "i32 status; u32 reserved"
    TRANSFER_DONE = 20, "i32 status; u32 reserved"
    # variable part: options, working directory, source, then num_headers times HEADER_ENTRY, name, text
    # (nothing padded between); reply payload as for BUILD, without kernels
    COMPILE = (
        21,
        "u32 options_nbytes; u32 directory_nbytes; u64 source_nbytes; u32 num_headers; u32 reserved",
    )
    # variable part: num_objects sizes of 8 bytes, options, objects (nothing padded between); reply as for
    # BUILD; rebuild: 1 for the one object of a binary
    LINK = 22, "u32 options_nbytes; u32 num_objects; u32 rebuild; u32 reserved"
    # the application released the buffer, the client may want one of that size again: once everything issued
    # on it is done its bytes are undefined and ``slot`` gets status 0, or a negative one: it can only be
    # released.  Until then the slot says SUBMITTED.
    RECYCLE_BUFFER = 23, "u32 slot; u32 reserved"
    # a recycled buffer, whose slot said 0, is in use again, with its old id and its old place; flags as of
    # CREATE_BUFFER
    REUSE_BUFFER = 24, "u64 flags"
    # what clGetKernelSubGroupInfo is asked: param, and the first num_given numbers that come with it
    # reply payload: num_answers numbers of 8 bytes
    SUB_GROUPS = (
        26,
        "u64 build; u32 kernel_index; u32 param; u64 given[3]; u32 num_given; u32 num_answers",
    )
    # variable part: num_regions ids of root buffers, which kernels may reach through pointers: each launch
    # that says so by ``reach`` may, until they are released
    REACH = 27, "u64 num_regions"
    RELEASE_REACH = 28
    # the last record in the socket: all others are in the ring, and bytes in the socket wake the service
    RING = 29
    # local_size 0,0,0: the application passed NULL.  Unused dimensions: offset 0, sizes 1.
    # variable part: num_args arguments, see ``sdi/wire/arguments.py``; then num_regions ids of root buffers:
    # those of its arguments that are regions, where it may follow pointers as its application may
    # reach: what else it may reach, the id of a REACH; 0: nothing.  member: see Devices
    NDRANGE = (
        30,
        "u64 build; u64 kernel; u32 kernel_index; u32 work_dim; u64 offset[3]; u64 global_size[3];"
        " u64 local_size[3]; u32 num_args; u32 args_nbytes; u32 member; u32 num_regions; u64 reach",
    )
    # offset: first byte in the buffer; region: bytes, rows, slices; pitches in bytes (0 when there is one)
    # unasked: 1: by the client, for memory of the application that the buffer uses
    # into: 0, or where in the arena the bytes go, in a row: the service copies them, the client does nothing
    READ = (
        31,
        "u64 buffer; u64 offset; u64 region[3]; u64 row_pitch; u64 slice_pitch; u32 blocking; u32 unasked;"
        " u64 into; u64 unused[2]",
    )
    # written_ns: 0, or when the client began to write early: nobody else knew the buffer, the bytes are there
    # carried_nbytes: 0, or all of the region: then that many bytes are the variable part, row by row
    # staged_at: 0, or where in the staging memory all bytes of the region are, row by row
    WRITE = (
        32,
        "u64 buffer; u64 offset; u64 region[3]; u64 row_pitch; u64 slice_pitch; u32 blocking; u32 unasked;"
        " u64 written_ns; u32 carried_nbytes; u32 is_mapped; u64 staged_at",
    )
    # member: see Devices; it has the target then
    COPY = (
        33,
        "u64 source; u64 target; u64 source_offset; u64 target_offset; u64 region[3]; u64 source_row_pitch;"
        " u64 source_slice_pitch; u64 target_row_pitch; u64 target_slice_pitch; u32 member; u32 reserved",
    )
    # variable part: the pattern; or, where data_type is not 0, the color (16 bytes) for an image's pixels
    # member: see Devices
    FILL = (
        34,
        "u64 buffer; u64 offset; u64 region[3]; u64 row_pitch; u64 slice_pitch; u32 pattern_nbytes;"
        " u32 order; u32 data_type; u32 member",
    )
    MAP = (
        35,
        "u64 buffer; u64 offset; u64 region[3]; u64 row_pitch; u64 slice_pitch; u64 flags; u32 transfer;"
        " u32 blocking",
    )
    # wrote: 1 when the mapping allowed writing
    UNMAP = (
        36,
        "u64 buffer; u64 offset; u64 region[3]; u64 row_pitch; u64 slice_pitch; u32 wrote; u32 transfer",
    )
    MARKER = 37
    BARRIER = 38
    # to a member, see Devices, or to the host (0); variable part: num_places times three u64: buffer, first
    # byte, number of bytes
    MIGRATE = 39, "u32 num_places; u32 member"


REPLIED = frozenset({Op.CREATE_BUFFER, Op.BUILD, Op.COMPILE, Op.LINK, Op.SUB_GROUPS})
COMMANDS = frozenset(op for op in Op if op >= Op.NDRANGE)


class NoticeKind(IntEnum):
    """What a notice says about the command or event ``id``; FAILED: about the context ``id``."""

    TRANSFER_READY = 1
    EVENT_STATUS = 2
    PRINTED = 3
    FAILED = 4


class FineUpdate(IntEnum):
    """How members' copies of fine-grained regions are kept coherent (see ``settings.FineGrain``)."""

    EAGER = 0
    BATCH = 1
    LAZY = 2
    ROLLING = 3


HEADER = fields("u32 nbytes; u32 op; u64 id")
COMMAND = fields("u64 queue; u32 slot; u32 num_waits")
"""Follows the header in every record of ``COMMANDS``.  ``slot`` 0: nobody looks at this command."""

BODY: dict[Op, Fields] = {op: op.body for op in Op}

INFO_ENTRY = fields("u32 param; u32 nbytes")
APPLICANT = fields("u64 text_nbytes; u32 outputs; u32 pad")
"""What a process that is ready is asked with (``service/ready.py``): the two sockets come with it, and of the
application's descriptors those whose bits are set in ``outputs``; then arguments and environment, as text.
"""
HEADER_ENTRY = fields("u32 name_nbytes; u32 text_nbytes")
BUILD_REPLY = fields("u32 log_nbytes; u32 num_kernels; u64 object_nbytes; u32 num_devices; u32 reserved")
# followed by WORK_GROUP_ENTRY for each device; name, attributes, each padded to 8; then ARGUMENT_ENTRY for
# each argument, each followed by name and type name, each padded to 8.  No terminators.  ``address``,
# ``access``, ``type``: what clGetKernelArgInfo answers (CL_KERNEL_ARG_ADDRESS_... and so on).
# ``is_written``: whether the kernel may write through it, as far as anybody can tell.
KERNEL_ENTRY = fields(
    "u32 name_nbytes; u32 attributes_nbytes; u32 num_args; u32 prints; u64 required_size[3];"
    " u32 follows_pointers; u32 reserved"
)
# What clGetKernelWorkGroupInfo answers for one device.
WORK_GROUP_ENTRY = fields(
    "u64 work_group_size; u64 preferred_multiple; u64 local_mem_nbytes; u64 private_mem_nbytes"
)
ARGUMENT_ENTRY = fields(
    "u32 kind; u32 nbytes; u32 address; u32 access; u64 type; u32 name_nbytes; u32 type_nbytes;"
    " u32 holds_pointers; u32 is_written"
)

# Facts that are no answers of clGetDeviceInfo.
FACT_IMAGE_FORMATS = 0x80000001
"""All formats as FORMAT_ENTRY.  ``uses``: see ``Capabilities.formats``."""
FACT_PLATFORM_VENDOR = 0x80000002
"""CL_PLATFORM_VENDOR, with the zero at its end."""
FACT_NEXT_DEVICE = 0x80000003
"""What follows is said of the next device: where each member is one, in their order."""
FACT_FINE_IN_PLACE = 0x80000004
"""Nothing.  Members use fine-grained regions where the application does; without it they have copies."""
FACT_FINE_UPDATE = 0x80000005
"""u64: how those copies and the application's memory are kept coherent, if not by eager update (FineUpdate);
of rolling update the bytes of a block, and how many may be written and not be taken yet (0: two for each
region)."""
FACT_PLATFORM_NAME = 0x80000006
"""CL_PLATFORM_NAME, likewise."""
FACT_PLATFORM_VERSION = 0x80000007
"""CL_PLATFORM_VERSION, likewise."""
FORMAT_ENTRY = fields("u32 order; u32 data_type; u32 uses; u32 reserved")

ARENA_HEADER = fields(
    "u64 magic; u32 version; u32 epoch; u64 arena_nbytes; u32 waiters; u32 has_ring; u64 taken_nbytes;"
    " u64 resting_nbytes; u32 ended; u32 cores; u64 staged_nbytes; u64 host_compared_nbytes;"
    " u64 host_copied_nbytes; u64 host_faults; u64 host_faults_ns; u64 watched_nbytes"
)
"""``has_ring``: whether the service reads the ring; set at any time.  ``resting_nbytes``: while no command
is under way nothing is done with the bytes of buffers of at most this size in the arena.  ``ended``: the
signal that ends the service, or ``ENDED_BY_ITSELF``; 0: none of these yet.  ``cores``: that the service may
use.  ``staged_nbytes``: so many of a write are staged at most.  ``watched_nbytes``: from so many bytes on the
client may have the kernel tell what of a buffer's memory the application writes; 0: it does not.  ``host_``:
what the client counts: of memory of the application that buffers use the bytes that it looked at and copied,
and page faults there that it answered, and the time that this took."""
SHIFT_NBYTES = 256
"""A new buffer's ``shift``, of which this is a part: how far behind a page's beginning it may begin."""
ENDED_BY_ITSELF = 1 << 16
"""The service ends as it was asked to, or has said why."""
RING = fields("u64 head; u64 unused_head[7]; u64 tail; u64 unused_tail[7]; u32 asleep; u32 unused_asleep[15]")
"""Of the ring, whose bytes are at ``RING_BYTES_OFFSET``: how many the client has written (``head``), and the
service has read (``tail``), in all.  ``asleep``: the service does not look; who sets that to 0 wakes it."""
SLOT = fields(
    "i32 status; u32 reserved; u64 ready_nbytes; u64 queued_ns; u64 submitted_ns; u64 started_ns;"
    " u64 ended_ns; u64 packed_at; u64 spare"
)
"""One event's slot.  The client stores ``status`` = CL_QUEUED, ``ready_nbytes`` = 0 and ``queued_ns`` before
it sends the command, the service everything after.  A slot may be reused by the client once its status is
<= 0.  Times: CLOCK_MONOTONIC in ns.  ``packed_at``: where in the arena the bytes of a transfer's rectangle
are, or are to be put, in a row; 0: in the buffer."""

STRUCTS: dict[str, Fields] = {
    "header": HEADER,
    "command": COMMAND,
    "info_entry": INFO_ENTRY,
    "applicant": APPLICANT,
    "header_entry": HEADER_ENTRY,
    "build_reply": BUILD_REPLY,
    "kernel_entry": KERNEL_ENTRY,
    "work_group_entry": WORK_GROUP_ENTRY,
    "argument_entry": ARGUMENT_ENTRY,
    "arg_entry": ARG_ENTRY,
    "pointer_argument": POINTER_ARGUMENT,
    "local_argument": LOCAL_ARGUMENT,
    "image_argument": IMAGE_ARGUMENT,
    "sampler_argument": SAMPLER_ARGUMENT,
    "format_entry": FORMAT_ENTRY,
    "arena_header": ARENA_HEADER,
    "ring": RING,
    "slot": SLOT,
}


def record_layout(op: Op) -> struct.Struct:
    """Layout of a whole fixed record: header, command fields where ``op`` is a command, body."""
    return layout(*_groups(op))


def record_fields(op: Op) -> dict[str, int]:
    """Where each field is among what that layout unpacks."""
    return numbered(*_groups(op))


def _groups(op: Op) -> tuple[Fields, ...]:
    return (HEADER, COMMAND, BODY[op]) if op in COMMANDS else (HEADER, BODY[op])
