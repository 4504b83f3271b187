/* Devices, contexts, queues, samplers and events. */
#ifndef SDI_EVENT_H
#define SDI_EVENT_H

#include "objects/object.h"

struct sdi_device {
    struct sdi_object object;
    cl_uint number; /* among those that the service told of */
};

struct sdi_context {
    struct sdi_object object;
    cl_uint num_devices;
    cl_device_id *devices;    /* each once */
    struct sdi_limits limits; /* what at least one of them can do */
    intptr_t *properties; /* as given, with the final 0; or NULL */
    size_t num_properties;
    struct sdi_call *destructors;
    void (*notify)(const char *, const void *, size_t, void *); /* hears of commands that fail; or NULL */
    void *notify_data;
    cl_context next_listening;
};
SDI_FITS(struct sdi_context);

struct sdi_queue {
    struct sdi_object object;
    cl_context context;
    cl_device_id device;
    cl_ulong properties;
    cl_ulong *property_list; /* as given, with the final 0; or NULL */
    size_t num_property_list;
    uint64_t last_id; /* of the command enqueued last, but for early writes while it is not busy */
    uint64_t gate;    /* of the last command that had one */
    uint64_t bar;     /* the same */
    bool is_busy;     /* not all that was enqueued is known to be complete */
    uint64_t reached_id; /* the last command that is known to be complete with all before it */
    uint64_t shows_id; /* the last command that brings bytes to where the application looks, untold; 0: none under way */
};
SDI_FITS(struct sdi_queue);
/* Client lock held.  Whether all that was enqueued to it is known to be complete; whether that is not so of any queue. */
void sdi_queue_is_busy(cl_command_queue queue, bool busy);
bool sdi_any_busy(void);

struct sdi_sampler {
    struct sdi_object object;
    cl_context context;
    cl_uint normalized, addressing, filter;
    cl_ulong properties[7]; /* as given, with the final 0 */
    size_t num_properties;
};
SDI_FITS(struct sdi_sampler);

struct sdi_event {
    struct sdi_object object;
    cl_context context;
    cl_command_queue queue; /* NULL: user event */
    cl_uint type;
    uint32_t slot;
    int user_status;
    uint64_t gate, bar; /* see sdi_is_gated, sdi_is_barred */
    cl_event next_unset;
    bool profiling;
    bool is_given_up; /* its transfer is not made any more: it fails */
    bool is_awaited; /* its call blocked, if not to the end: who looks at it finds it complete */
    bool is_done; /* what it was to do is done: to the application it is complete, whatever the service has yet to say */
    struct sdi_call *callbacks;
    cl_event next_watched;
};
SDI_FITS(struct sdi_event);

bool sdi_context_has(cl_context context, cl_device_id device);
/* Of all there are, in their order; those of a type, up to `most`.  How many; 0: none, or no memory, or no service. */
cl_uint sdi_devices_of_type(cl_ulong type, cl_uint most, cl_device_id *devices);
/* `member` in the records of commands that are for a device, or a queue's. */
static inline uint32_t sdi_device_member(cl_device_id device)
{
    return sdi_session.num_devices > 1 ? device->number + 1 : 0;
}
static inline uint32_t sdi_queue_member(cl_command_queue queue) { return sdi_device_member(queue->device); }

int sdi_event_status(cl_event event);
/* Client lock held.  Whether there are user events that the application has not set. */
bool sdi_events_unset(void);
/* Client lock held.  A new user event is not set; now it is. */
void sdi_event_unset(cl_event event);
void sdi_event_set(cl_event event);
/* Any lock.  Whether a command, by the gate that it got, may yet wait for user events that are not set: all in an
 * ordered queue after one that does, and so in other queues. */
bool sdi_is_gated(uint64_t gate);
/* Client lock held.  Whether a command, by the bar that it got (0: none), is known to wait for a user event that is not
 * set; false does not say that it waits for none. */
bool sdi_is_barred(uint64_t bar);

#endif
