/* Streams and events that behave like a GPU driver's, on threads without the GIL: what CUDA lanes are tested with.

   A stream performs in order what it was given.  An event stands for the work that its stream had when it was
   recorded last; a wait refers to the recording at the time of the call. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

enum { RUN, RECORD, WAIT, LOG_MAX = 1 << 20 };

struct event {
    int64_t recorded, reached, at_ns;
    int failed;
};

struct operation {
    int kind, tag;
    int64_t number; /* ns to run, or the recording of the event */
    struct event *event;
    struct operation *next;
};

struct stream {
    pthread_t thread;
    struct operation *first, **last;
    int failed;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static int ran[LOG_MAX], num_ran;

static int64_t now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000LL + at.tv_nsec;
}

static void *perform(void *argument)
{
    struct stream *stream = argument;
    pthread_mutex_lock(&lock);
    for (;;) {
        struct operation *next = stream->first;
        if (!next) {
            pthread_cond_wait(&changed, &lock);
            continue;
        }
        if (next->kind == WAIT && next->event->reached < next->number) {
            pthread_cond_wait(&changed, &lock);
            continue;
        }
        if (next->kind == RUN && !stream->failed) {
            if (next->number > 0) {
                struct timespec span = {next->number / 1000000000, next->number % 1000000000};
                pthread_mutex_unlock(&lock);
                nanosleep(&span, NULL);
                pthread_mutex_lock(&lock);
            }
            if (num_ran < LOG_MAX)
                ran[num_ran++] = next->tag;
        }
        if (next->kind == RECORD) {
            next->event->reached = next->number;
            next->event->failed = stream->failed;
            next->event->at_ns = now();
            pthread_cond_broadcast(&changed);
        }
        stream->first = next->next;
        if (!stream->first)
            stream->last = &stream->first;
        free(next);
    }
    return NULL;
}

static void give(struct stream *stream, int kind, int tag, int64_t number, struct event *event)
{
    struct operation *made = malloc(sizeof *made);
    *made = (struct operation){kind, tag, number, event, NULL};
    *stream->last = made;
    stream->last = &made->next;
    pthread_cond_broadcast(&changed);
}

struct stream *stream_new(void)
{
    struct stream *made = calloc(1, sizeof *made);
    made->last = &made->first;
    pthread_create(&made->thread, NULL, perform, made);
    pthread_detach(made->thread);
    return made;
}

struct event *event_new(void)
{
    return calloc(1, sizeof(struct event));
}

void stream_run(struct stream *stream, int tag, int64_t ns)
{
    pthread_mutex_lock(&lock);
    give(stream, RUN, tag, ns, NULL);
    pthread_mutex_unlock(&lock);
}

void stream_fail(struct stream *stream)
{
    pthread_mutex_lock(&lock);
    stream->failed = 1;
    pthread_mutex_unlock(&lock);
}

void stream_wait(struct stream *stream, struct event *event)
{
    pthread_mutex_lock(&lock);
    give(stream, WAIT, 0, event->recorded, event);
    pthread_mutex_unlock(&lock);
}

/* The stream stands still until event_release. */
void stream_hold(struct stream *stream, struct event *gate)
{
    pthread_mutex_lock(&lock);
    give(stream, WAIT, 0, gate->reached + 1, gate);
    pthread_mutex_unlock(&lock);
}

void event_release(struct event *gate)
{
    pthread_mutex_lock(&lock);
    gate->reached++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

void event_record(struct event *event, struct stream *stream)
{
    pthread_mutex_lock(&lock);
    give(stream, RECORD, 0, ++event->recorded, event);
    pthread_mutex_unlock(&lock);
}

/* 1: complete, 0: not yet, -1: its stream failed. */
int event_query(struct event *event)
{
    pthread_mutex_lock(&lock);
    int answer = event->reached < event->recorded ? 0 : event->failed ? -1 : 1;
    pthread_mutex_unlock(&lock);
    return answer;
}

int event_synchronize(struct event *event)
{
    pthread_mutex_lock(&lock);
    while (event->reached < event->recorded)
        pthread_cond_wait(&changed, &lock);
    int answer = event->failed ? -1 : 1;
    pthread_mutex_unlock(&lock);
    return answer;
}

int64_t event_at_ns(struct event *event)
{
    return event->at_ns;
}

/* Tags of what ran since the last call, in order, at most so many; how many. */
int take_ran(int *tags, int most)
{
    pthread_mutex_lock(&lock);
    int count = num_ran < most ? num_ran : most;
    for (int k = 0; k < count; k++)
        tags[k] = ran[k];
    num_ran = 0;
    pthread_mutex_unlock(&lock);
    return count;
}
