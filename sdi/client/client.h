/* What all files of the client share.  Each folder's header says what others may use of it: who may call it, holding
 * what.  Calls go one way, enqueue -> objects -> threads -> link; what must come back is registered when the library is
 * loaded (sdi_register_...).
 *
 * Locks, in the order in which they may be taken:
 *   start lock (link/start.c)   one thread starts the service
 *   busy lock (objects/host_pointer.c)   bytes are taken from the application's memory or shown there
 *   client lock (link/lock.c)   handles, ids, slots, the command stream, all fields of objects that change
 *   reply lock (link/stream.c)    threads that wait for replies
 *   callback lock (threads/callback.c)   callbacks to run
 * No lock but the busy lock is held while a callback of the application runs, while a reply or an event is awaited,
 * or while bytes of a transfer are copied; that is not while a callback runs. */
#ifndef SDI_CLIENT_H
#define SDI_CLIENT_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cl.h"
#include "sdi_wire.h"

#ifndef SDI_VERSION
#define SDI_VERSION "0"
#endif

/* What one thread copies in a row, and what pages are made present for, counted from a buffer's first byte. */
#define SDI_PIECE_NBYTES ((size_t)1 << 20)

#define SDI_MIN(a, b) ((a) < (b) ? (a) : (b))
#define SDI_MAX(a, b) ((a) > (b) ? (a) : (b))

/* Begins a function that registers what its file does for others.  It may only register. */
#define SDI_AT_LOAD __attribute__((constructor)) static

#endif
