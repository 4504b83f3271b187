/* Sub-groups of kernels: a member is asked, once for each question. */
#include "objects/event.h"
#include "objects/program.h"

/* The answers that a kernel remembers; the oldest makes room. */
enum { REMEMBERED = 16, MAX_NUMBERS = 3 };

struct question {
    cl_uint param;
    uint32_t num_given, num_answers;
    uint64_t given[MAX_NUMBERS];
};

struct sdi_sub_groups {
    struct question questions[REMEMBERED];
    uint64_t answers[REMEMBERED][MAX_NUMBERS];
    uint32_t num; /* since the build */
};

static bool is_same(const struct question *a, const struct question *b)
{
    return a->param == b->param && a->num_given == b->num_given && a->num_answers == b->num_answers
        && memcmp(a->given, b->given, sizeof a->given) == 0;
}

/* Client lock held. */
static bool recall(const struct sdi_sub_groups *known, const struct question *question, uint64_t *answers)
{
    for (uint32_t i = 0; known && i < SDI_MIN(known->num, (uint32_t)REMEMBERED); i++)
        if (is_same(&known->questions[i], question)) {
            memcpy(answers, known->answers[i], sizeof known->answers[i]);
            return true;
        }
    return false;
}

/* Client lock held.  Where there is no memory nothing is remembered. */
static void remember(struct sdi_kernel_table *table, const struct question *question, const uint64_t *answers)
{
    if (!table->sub_groups)
        table->sub_groups = calloc(1, sizeof *table->sub_groups);
    if (!table->sub_groups)
        return;
    uint32_t at = table->sub_groups->num++ % REMEMBERED;
    table->sub_groups->questions[at] = *question;
    memcpy(table->sub_groups->answers[at], answers, sizeof table->sub_groups->answers[at]);
}

/* Client lock not held. */
static cl_int ask(uint64_t build, uint32_t index, uint64_t id, const struct question *question, uint64_t *answers)
{
    struct sdi_rec_sub_groups record = {
        .nbytes = sizeof record,
        .op = SDI_OP_SUB_GROUPS,
        .id = id,
        .build = build,
        .kernel_index = index,
        .param = question->param,
        .num_given = question->num_given,
        .num_answers = question->num_answers,
    };
    memcpy(record.given, question->given, sizeof record.given);
    struct sdi_reply reply = sdi_ask(&record, sizeof record);
    size_t nbytes = question->num_answers * sizeof *answers;
    if (!reply.status && reply.payload_nbytes != nbytes) {
        sdi_session_died();
        reply.status = CL_OUT_OF_RESOURCES;
    }
    if (!reply.status)
        memcpy(answers, reply.payload, nbytes);
    free(reply.payload);
    return reply.status;
}

static cl_int find_out(cl_kernel kernel, cl_device_id device, const struct question *question, uint64_t *answers)
{
    uint64_t build;
    uint32_t index;
    sdi_kernel_on(kernel, device, &build, &index);
    struct sdi_kernel_table *table = &sdi_target_of(kernel->program, device)->build->tables[index];
    sdi_lock();
    bool is_known = recall(table->sub_groups, question, answers);
    uint64_t id = is_known ? 0 : sdi_next_id();
    sdi_unlock();
    if (is_known)
        return CL_SUCCESS;
    cl_int status = ask(build, index, id, question, answers);
    if (status)
        return status;
    sdi_lock();
    remember(table, question, answers);
    sdi_unlock();
    return CL_SUCCESS;
}

static bool has_sub_groups(cl_device_id device)
{
    size_t nbytes;
    cl_uint most = 0;
    const void *fact = sdi_fact(device->number, CL_DEVICE_MAX_NUM_SUB_GROUPS, &nbytes);
    if (fact && nbytes == sizeof most)
        memcpy(&most, fact, sizeof most);
    return most > 0;
}

/* Takes what comes with the query: at most so many numbers. */
static bool take(struct question *question, const void *input, size_t input_size, uint32_t most)
{
    size_t num = input_size / sizeof *question->given;
    if (!input || input_size % sizeof *question->given || num == 0 || num > most)
        return false;
    memcpy(question->given, input, input_size);
    question->num_given = (uint32_t)num;
    return true;
}

cl_int sdi_clGetKernelSubGroupInfo(cl_kernel kernel, cl_device_id device, cl_uint param, size_t input_size,
                                   const void *input, size_t size, void *value, size_t *size_ret)
{
    struct question question = {.param = param, .num_answers = 1};
    uint64_t answers[MAX_NUMBERS] = {0};
    size_t nbytes;
    bool is_whole = true;
    if (!sdi_is_kernel(kernel))
        return CL_INVALID_KERNEL;
    if (!device && kernel->program->num_targets == 1)
        device = kernel->program->targets[0].device;
    if (!sdi_is_device_id(device) || !sdi_kernel_on(kernel, device, NULL, NULL))
        return CL_INVALID_DEVICE;
    if (!has_sub_groups(device))
        return CL_INVALID_OPERATION;
    switch (param) {
    case CL_KERNEL_MAX_SUB_GROUP_SIZE_FOR_NDRANGE:
    case CL_KERNEL_SUB_GROUP_COUNT_FOR_NDRANGE:
        is_whole = take(&question, input, input_size, MAX_NUMBERS);
        for (uint32_t i = 0; i < question.num_given; i++)
            is_whole &= question.given[i] > 0; /* drivers divide by them */
        break;
    case CL_KERNEL_LOCAL_SIZE_FOR_SUB_GROUP_COUNT: /* of as many dimensions as there is room for */
        is_whole = take(&question, input, input_size, 1);
        question.num_answers = value ? (uint32_t)SDI_MIN(size / sizeof *answers, (size_t)MAX_NUMBERS) : MAX_NUMBERS;
        break;
    case CL_KERNEL_COMPILE_SUB_GROUP_SIZE_INTEL:
        is_whole = sdi_fact(device->number, CL_DEVICE_SUB_GROUP_SIZES_INTEL, &nbytes) != NULL;
        break;
    case CL_KERNEL_MAX_NUM_SUB_GROUPS:
    case CL_KERNEL_COMPILE_NUM_SUB_GROUPS:
        break;
    default:
        return CL_INVALID_VALUE;
    }
    nbytes = question.num_answers * sizeof *answers;
    if (!is_whole || nbytes == 0 || (value && size < nbytes))
        return CL_INVALID_VALUE;
    cl_int status = value ? find_out(kernel, device, &question, answers) : CL_SUCCESS;
    return status ? status : sdi_answer(answers, nbytes, size, value, size_ret);
}

cl_int sdi_clGetKernelSubGroupInfoKHR(cl_kernel kernel, cl_device_id device, cl_uint param, size_t input_size,
                                      const void *input, size_t size, void *value, size_t *size_ret)
{
    return sdi_clGetKernelSubGroupInfo(kernel, device, param, input_size, input, size, value, size_ret);
}
