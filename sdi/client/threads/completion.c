/* The completion thread: reads notices, has them handled, and prints what kernels printed.
 *
 * Started at the first non-blocking transfer, watched event or queue of a context with a callback; never runs
 * code of the application. */
#include "threads/threads.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>

static struct {
    bool (*told)(const struct sdi_rec_notice *notice, const char *text);
    void (*ended)(void);
} kinds[SDI_NOTICE_FAILED + 1];
static bool started; /* client lock */
static bool running; /* atomic */
static pthread_t thread;

static void forget(void)
{
    started = running = false;
}

SDI_AT_FORK(forget)

void sdi_register_notice(uint32_t kind, bool (*told)(const struct sdi_rec_notice *notice, const char *text),
                         void (*ended)(void))
{
    kinds[kind].told = told;
    kinds[kind].ended = ended;
}

bool sdi_on_completion_thread(void)
{
    return __atomic_load_n(&running, __ATOMIC_ACQUIRE) && pthread_equal(thread, pthread_self());
}

/* What has been received and not been looked at. */
struct inbox {
    size_t begin, end;
    char bytes[16 << 10];
};

/* Makes at least `nbytes` available, of at most the size of the inbox; false: the service is gone.  `begun`: they are
 * not the first of a notice. */
static bool fill(struct inbox *inbox, size_t nbytes, bool begun)
{
    if (inbox->begin + nbytes > sizeof inbox->bytes) {
        memmove(inbox->bytes, inbox->bytes + inbox->begin, inbox->end - inbox->begin);
        inbox->end -= inbox->begin;
        inbox->begin = 0;
    }
    while (inbox->end - inbox->begin < nbytes) {
        if ((begun || inbox->end != inbox->begin) && !sdi_rest_comes(sdi_session.notices))
            return false;
        ssize_t n = recv(sdi_session.notices, inbox->bytes + inbox->end, sizeof inbox->bytes - inbox->end, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        inbox->end += (size_t)n;
    }
    return true;
}

/* Text of kernels, through the application's own stdio; then the launch may complete. */
static bool print_notice(struct inbox *inbox, const struct sdi_rec_notice *notice)
{
    size_t text = notice->text_nbytes, left = notice->nbytes - sizeof *notice;
    if (text > SDI_MAX_RECORD_NBYTES || left != sdi_padded(text))
        return false;
    while (left) {
        if (inbox->begin == inbox->end && !fill(inbox, 1, true))
            return false;
        size_t here = SDI_MIN(left, inbox->end - inbox->begin), printed = SDI_MIN(text, here);
        if (printed)
            fwrite(inbox->bytes + inbox->begin, 1, printed, stdout);
        inbox->begin += here;
        left -= here;
        text -= printed;
    }
    sdi_lock();
    sdi_send_status(SDI_OP_TRANSFER_DONE, notice->id, CL_SUCCESS);
    sdi_unlock();
    return true;
}

/* Of any other kind; false: it makes no sense. */
static bool handle_notice(struct inbox *inbox, const struct sdi_rec_notice *notice)
{
    size_t text = notice->text_nbytes, left = notice->nbytes - sizeof *notice;
    if (notice->kind > SDI_NOTICE_FAILED || !kinds[notice->kind].told || text > SDI_FAILURE_MAX_NBYTES
        || left != sdi_padded(text) || !fill(inbox, left, true))
        return false;
    const char *at = inbox->bytes + inbox->begin;
    inbox->begin += left;
    return kinds[notice->kind].told(notice, at);
}

static void *run(void *argument)
{
    (void)argument;
    static struct inbox inbox;
    inbox.begin = inbox.end = 0;
    thread = pthread_self();
    __atomic_store_n(&running, true, __ATOMIC_RELEASE);
    pthread_setname_np(pthread_self(), "sdi-completion");
    struct sdi_rec_notice notice;
    bool makes_sense = true;
    while (makes_sense && fill(&inbox, sizeof notice, false)) {
        memcpy(&notice, inbox.bytes + inbox.begin, sizeof notice);
        inbox.begin += sizeof notice;
        makes_sense = notice.op == SDI_OP_NOTICE && notice.nbytes >= sizeof notice
                      && (notice.kind == SDI_NOTICE_PRINTED ? print_notice : handle_notice)(&inbox, &notice);
    }
    sdi_session_died();
    for (uint32_t kind = 0; kind <= SDI_NOTICE_FAILED; kind++)
        if (kinds[kind].ended)
            kinds[kind].ended();
    return NULL;
}

cl_int sdi_completion_start(void)
{
    if (!started)
        started = sdi_start_thread(run, NULL) == 0;
    return started ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
}
